// The options of input files: one typed declaration of each serves reading, checks, resolved copy and documentation.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "config/check.hpp"
#include "config/document.hpp"

namespace petaflow {

struct OptionInfo {
  std::string name;           // dotted path
  std::string type;           // "a number", "a list of strings", ...
  std::string default_value;  // TOML text
  std::string constraint;     // completes "must be"; empty: none
};

/// A variable of any other type, each of whose values has a word.
struct WordTarget {
  std::function<std::string()> word;
  std::function<void(const std::string&)> assign;
};

/// An option that puts others to use where it has one of some words; without words, where it has any value but those
/// that do nothing (Schema::add_use).
struct UsedBy {
  std::string option;
  std::vector<std::string> words = {};
};

/// The variable that an option sets.
using Target = std::variant<bool*, int*, std::int64_t*, double*, std::string*, std::vector<std::string>*,
                            std::vector<double>*, std::vector<std::int64_t>*, WordTarget>;

/// Options bound to variables, which must outlive it; the variables' values at declaration are the defaults.
class Schema {
 public:
  /// Throws a failure where the option is declared twice, is a table too, or its default breaks the check.
  template <class T>
  void add(std::string option, T& value, Check check = {}) {
    static_assert(std::is_constructible_v<Target, T*>, "an option is a bool, int, int64, double, string or a list");
    declare(std::move(option), Target(&value), std::move(check));
  }

  /// An option whose value is one of some words, each of which stands for a value of the variable.
  template <class T>
  void add(std::string option, T& value, const std::vector<std::pair<std::string, std::type_identity_t<T>>>& words) {
    std::vector<std::string> names;
    for (const auto& [word, meaning] : words) names.push_back(word);
    const auto word = [&value, words] {
      return std::ranges::find(words, value, &std::pair<std::string, T>::second)->first;
    };
    const auto assign = [&value, words](const std::string& name) {
      value = std::ranges::find(words, name, &std::pair<std::string, T>::first)->second;
    };
    declare(std::move(option), WordTarget{word, assign}, one_of(std::move(names)));
  }

  /// The name that an option had in earlier versions: it is read as the option itself.
  void add_former_name(std::string former, std::string option);

  /// Says that options do something only while one of these puts them to use.  Where several such sentences are about
  /// an option, all must hold.
  void add_use(const std::vector<std::string>& options, const std::vector<UsedBy>& any_of);
  void add_use(const std::vector<std::string>& options, std::string user, std::vector<std::string> words = {}) {
    add_use(options, {UsedBy{std::move(user), std::move(words)}});
  }
  /// Says that options do something only on several ranks.
  void add_use_on_ranks(const std::vector<std::string>& options);
  /// The value with which an option does nothing, where that is not its default: a momentum of 0.
  void add_neutral(const std::string& option, const Scalar& value);

  /// Looks for options that were set and do nothing beside the others; their defaults and neutral values do no harm and
  /// pass.  Throws a user error that says what to set, but not for options of a file that the command line has made
  /// idle, which get their defaults, nor for those that the number of ranks makes idle: gives a sentence for each.
  /// @param ranks  of the run; 0: not known
  std::vector<std::string> drop_idle(int ranks = 0);

  /// Sets the variables from a TOML file (empty name: none), then from overrides `option=value`, the last one wins.
  /// The value of an override is TOML; for a string, and for a list of one string, the bare text does.  An integer is
  /// accepted for a number, nothing else is converted.  Throws user errors that name place, option, and what was
  /// expected and found; variables may be partly set then.
  void load(const std::string& toml_file, std::span<const std::string> overrides = {});

  /// Sets the variables from what resolved() gave; `where` names the text in errors, which are those of load().
  void load_text(std::string_view toml, const std::string& where);

  /// All options with their present values as TOML text, grouped by table; load() reads it back to the same values.
  std::string resolved() const;

  std::vector<OptionInfo> options() const;

 private:
  struct Option {
    OptionInfo info;
    Target target;
    Check check;
    std::string neutral;                         // TOML text of the value that does nothing
    std::vector<std::vector<UsedBy>> uses = {};  // one of each
    bool on_ranks = false;
  };

  void declare(std::string name, Target target, Check check);
  const Option* find(std::string_view name) const;
  Option& existing(const std::string& name);
  bool puts_to_use(const UsedBy& user) const;
  std::string refuse_where_idle(const Option& option) const;
  std::vector<std::string> tables() const;  // each with its parents, in the order of declaration
  std::string top_tables() const;           // "train, optimizer"
  std::string unknown(const std::string& name, bool is_table) const;  // the complaint
  const std::string& present_name(const std::string& name) const;
  const Option& require(const std::string& name, const std::string& where, const Value* found) const;
  void set(const std::string& name, const Value& value, const std::string& where);
  /// @param what  for errors: where it was found, and the option
  static void assign(const Option& option, const Value& value, const std::string& what);
  void apply_override(const std::string& text);

  std::vector<Option> options_;
  std::map<std::string, std::string> former_names_;
  std::set<std::string> overridden_;  // set on the command line
};

/// The known name that a mistyped one most likely means: near by the edit distance of its last component, or of all, or
/// because it holds all words of it (batch_size: batch).  Empty where none is.
std::string nearest_name(const std::string& name, std::span<const std::string> known);

}  // namespace petaflow
