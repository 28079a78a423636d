// Declaring, loading and writing options.
#include "config/schema.hpp"

#include <algorithm>
#include <utility>

#include <fmt/ranges.h>

#include "base/error.hpp"
#include "config/conversion.hpp"

namespace petaflow {
namespace {

const std::string kCommandLine = "command line";

// The type in which a text holds the value of a target.
template <class T>
using Held = std::conditional_t<std::is_same_v<T, WordTarget>, std::string, std::remove_pointer_t<T>>;

std::string text_of(const Target& target) {
  return std::visit(
      [](const auto& value) {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, WordTarget>) {
          return to_toml(value.word());
        } else {
          return to_toml(*value);
        }
      },
      target);
}

bool is_bare_key(std::string_view name) {
  const std::string_view allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  return !name.empty() && name.front() != '.' && name.back() != '.' && name.find("..") == name.npos &&
         name.find_first_not_of(allowed) == name.npos;
}

// Whether one name is a table that holds the other.
bool holds(std::string_view table, std::string_view option) {
  return option.size() > table.size() && option.starts_with(table) && option[table.size()] == '.';
}

std::string trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t"), end = text.find_last_not_of(" \t");
  return begin == text.npos ? "" : std::string(text.substr(begin, end - begin + 1));
}

}  // namespace

void Schema::declare(std::string name, Target target, Check check) {
  PETAFLOW_REQUIRE(is_bare_key(name), "'{}' is no name of an option", name);
  for (const Option& option : options_) {
    PETAFLOW_REQUIRE(option.info.name != name, "option {} is declared twice", name);
    PETAFLOW_REQUIRE(!holds(option.info.name, name) && !holds(name, option.info.name), "{} is also a table", name);
  }
  std::visit(
      [&](const auto& value) {
        using T = Held<std::remove_cvref_t<decltype(value)>>;
        PETAFLOW_REQUIRE(check_fits<T>(check), "the check '{}' of {} is for another type", check.text, name);
        const std::string text = text_of(target);
        try {
          checked<T>(parse_document("v = " + text, name).at(0).value, check, name);
        } catch (const Error& error) {
          failure("the default of an option is refused: {}", error.what());
        }
        options_.push_back({{name, type_name<T>(), text, check.text}, target, check, text});
      },
      target);
}

void Schema::add_former_name(std::string former, std::string option) {
  PETAFLOW_REQUIRE(find(former) == nullptr && find(option) != nullptr, "{} is no former name of {}", former, option);
  former_names_.emplace(std::move(former), std::move(option));
}

Schema::Option& Schema::existing(const std::string& name) {
  const Option* const option = find(name);
  PETAFLOW_REQUIRE(option != nullptr, "{} is no option", name);
  return options_[static_cast<std::size_t>(option - options_.data())];
}

void Schema::add_use(const std::vector<std::string>& options, const std::vector<UsedBy>& any_of) {
  for (const UsedBy& user : any_of) existing(user.option);
  for (const std::string& name : options) existing(name).uses.push_back(any_of);
}

void Schema::add_use_on_ranks(const std::vector<std::string>& options) {
  for (const std::string& name : options) existing(name).on_ranks = true;
}

void Schema::add_neutral(const std::string& name, const Scalar& value) {
  Option& option = existing(name);
  option.neutral = std::visit(
      [&](const auto& target) {
        return to_toml(checked<Held<std::remove_cvref_t<decltype(target)>>>(value, option.check, name));
      },
      option.target);
}

bool Schema::puts_to_use(const UsedBy& user) const {
  const Option& option = *find(user.option);
  const std::string value = text_of(option.target);
  if (user.words.empty()) return value != option.neutral;
  return std::ranges::any_of(user.words, [&](const std::string& word) { return value == to_toml(word); });
}

// "" where the option does something or has a value that does no harm.  Throws, or gives a sentence, elsewhere.
std::string Schema::refuse_where_idle(const Option& option) const {
  const std::string& name = option.info.name;
  const std::string value = text_of(option.target);
  if (value == option.info.default_value || value == option.neutral) return "";
  for (const std::vector<UsedBy>& any_of : option.uses) {
    if (std::ranges::any_of(any_of, [&](const UsedBy& user) { return puts_to_use(user); })) continue;
    std::vector<std::string> reasons, remedies;
    bool made_so = false;  // by the command line
    for (const UsedBy& user : any_of) {
      std::vector<std::string> values;
      for (const std::string& word : user.words) values.push_back(to_toml(word));
      reasons.push_back(fmt::format("{} is {}", user.option, text_of(find(user.option)->target)));
      remedies.push_back(values.empty() ? user.option
                                        : fmt::format("{} to {}", user.option, fmt::join(values, " or ")));
      made_so = made_so || overridden_.contains(user.option);
    }
    const std::string sentence = fmt::format("{} = {} does nothing while {}", name, value, fmt::join(reasons, " and "));
    if (made_so && !overridden_.contains(name)) return sentence;
    user_error("{}; set {}, or leave {} at {}", sentence, fmt::join(remedies, " or "), name, option.info.default_value);
  }
  return "";
}

std::vector<std::string> Schema::drop_idle(int ranks) {
  std::vector<std::string> sentences;
  std::vector<const Option*> idle;  // reset at the end: none is idle because another one was
  for (const Option& option : options_) {
    const auto& [name, type, default_value, constraint] = option.info;
    if (std::string sentence = refuse_where_idle(option); !sentence.empty()) {
      sentences.push_back(std::move(sentence));
      idle.push_back(&option);
    } else if (const std::string value = text_of(option.target);
               ranks == 1 && option.on_ranks && value != default_value) {
      sentences.push_back(fmt::format("{} = {} does nothing on one rank", name, value));
    }
  }
  for (const Option* option : idle) {
    const std::string& name = option->info.name;
    assign(*option, parse_document("v = " + option->info.default_value, name).at(0).value, name);
  }
  return sentences;
}

const std::string& Schema::present_name(const std::string& name) const {
  const auto former = former_names_.find(name);
  return former == former_names_.end() ? name : former->second;
}

const Schema::Option* Schema::find(std::string_view name) const {
  const auto option =
      std::find_if(options_.begin(), options_.end(), [&](const Option& k) { return k.info.name == name; });
  return option == options_.end() ? nullptr : &*option;
}

const Schema::Option& Schema::require(const std::string& name, const std::string& where, const Value* value) const {
  if (const Option* option = find(present_name(name))) return *option;
  const std::vector<std::string> known = tables();
  if (std::find(known.begin(), known.end(), name) != known.end()) {
    user_error("{}: {} must be a table of options{}", where, name, value == nullptr ? "" : ", found " + found(*value));
  }
  user_error("{}: {}", where, unknown(name, false));
}

std::string Schema::unknown(const std::string& name, bool is_table) const {
  std::vector<std::string> names = tables();
  if (!is_table) names.clear();
  for (const Option& option : options_) {
    if (!is_table) names.push_back(option.info.name);
  }
  const std::string said = fmt::format("unknown {} {}", is_table ? "table" : "option", name);
  if (const std::string nearest = nearest_name(name, names); !nearest.empty()) {
    return fmt::format("{}; the nearest is {}", said, nearest);
  }
  const std::size_t dot = name.rfind('.');
  const std::string table = name.substr(0, dot == name.npos ? 0 : dot);
  std::erase_if(names, [&](const std::string& other) { return !holds(table, other); });
  if (is_table || names.empty()) return fmt::format("{}; there are tables {}", said, top_tables());
  for (std::string& other : names) other.erase(0, table.size() + 1);
  return fmt::format("{}; those of [{}] are {}", said, table, fmt::join(names, ", "));
}

std::vector<std::string> Schema::tables() const {
  std::vector<std::string> result;
  for (const Option& option : options_) {
    const std::string& name = option.info.name;
    for (std::size_t dot = name.find('.'); dot != name.npos; dot = name.find('.', dot + 1)) {
      const std::string table = name.substr(0, dot);
      if (std::find(result.begin(), result.end(), table) == result.end()) result.push_back(table);
    }
  }
  return result;
}

std::string Schema::top_tables() const {
  std::vector<std::string> names = tables();
  std::erase_if(names, [](const std::string& table) { return table.find('.') != table.npos; });
  return fmt::format("{}", fmt::join(names, ", "));
}

void Schema::set(const std::string& name, const Value& value, const std::string& where) {
  const Option& option = require(name, where, &value);
  if (where == kCommandLine) overridden_.insert(option.info.name);
  assign(option, value, where + ": " + name);
}

void Schema::assign(const Option& option, const Value& value, const std::string& what) {
  std::visit(
      [&](const auto& target) {
        using T = std::remove_cvref_t<decltype(target)>;
        auto found = checked<Held<T>>(value, option.check, what);
        if constexpr (std::is_same_v<T, WordTarget>) {
          target.assign(found);
        } else {
          *target = std::move(found);
        }
      },
      option.target);
}

void Schema::apply_override(const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::string name = trimmed(text.substr(0, equals));
  if (equals == text.npos || name.empty()) user_error("{}: '{}' must have the form option=value", kCommandLine, text);
  const std::string raw = trimmed(text.substr(equals + 1));
  const Option& option = require(name, kCommandLine, nullptr);
  const bool is_string =
      std::holds_alternative<std::string*>(option.target) || std::holds_alternative<WordTarget>(option.target);
  const bool is_strings = std::holds_alternative<std::vector<std::string>*>(option.target);
  const bool quoted = !raw.empty() && (raw[0] == '"' || raw[0] == '\'');
  const bool bracketed = !raw.empty() && (raw[0] == '[' || raw[0] == '{');

  Value value = Scalar(raw);  // the bare text, unless it is to be read as TOML
  if (quoted || bracketed || (!is_string && !is_strings)) {
    std::vector<Entry> entries;
    try {
      entries = parse_document("v = " + raw, kCommandLine);
    } catch (const NumberTooLarge& error) {
      user_error("{}: {}: {}", kCommandLine, name, error.reason());
    } catch (const Error& error) {
      if (quoted || bracketed) user_error("{}: the value of {} is not valid TOML: {}", kCommandLine, name, raw);
    }
    if (entries.size() == 1 && entries[0].key == "v") value = entries[0].value;
  } else {
    try {
      parse_document("v = " + to_toml(raw), kCommandLine);
    } catch (const Error&) {
      user_error("{}: the value of {} is not valid UTF-8", kCommandLine, name);
    }
  }
  const auto* scalar = std::get_if<Scalar>(&value);
  if (is_strings && !raw.empty() && scalar != nullptr) value = std::vector<Scalar>{*scalar};
  set(name, value, kCommandLine);
}

void Schema::load(const std::string& toml_file, std::span<const std::string> overrides) {
  if (!toml_file.empty()) {
    const std::vector<std::string> known = tables();
    std::string first;  // complaint about an option that is not known
    int more = 0;
    bool says_which = find("application") == nullptr;  // whether the file says which application it is for
    for (const Entry& entry : parse_document(read_text_file(toml_file), toml_file)) {
      const std::string where = fmt::format("{}:{}", toml_file, entry.line);
      says_which = says_which || entry.key == "application";
      const bool is_table = std::find(known.begin(), known.end(), entry.key) != known.end();
      if (find(present_name(entry.key)) != nullptr || (is_table && !entry.empty_table)) {
        if (first.empty()) set(entry.key, entry.value, where);
      } else if (!is_table) {
        more += first.empty() ? 0 : 1;
        if (first.empty()) first = fmt::format("{}: {}", where, unknown(entry.key, entry.empty_table));
      }
    }
    if (more > 0) first += fmt::format("; {} more option{} unknown", more, more > 1 ? "s are" : " is");
    if (more > 0 && !says_which) {
      first +=
          "; this may be an input of another application: it has no line application = \"...\" that says for which";
    }
    if (!first.empty()) user_error("{}", first);
  }
  for (const std::string& text : overrides) apply_override(text);
}

void Schema::load_text(std::string_view toml, const std::string& where) {
  for (const Entry& entry : parse_document(toml, where)) set(entry.key, entry.value, where);
}

std::string Schema::resolved() const {
  std::vector<std::string> names = tables();
  names.insert(names.begin(), "");  // options without a table must come first
  std::string text;
  for (const std::string& table : names) {
    const std::string prefix = table.empty() ? "" : table + ".";
    std::string lines;
    for (const Option& option : options_) {
      const std::string& name = option.info.name;
      if (!name.starts_with(prefix) || name.find('.', prefix.size()) != name.npos) continue;
      lines += name.substr(prefix.size()) + " = " + text_of(option.target) + "\n";
    }
    if (lines.empty()) continue;
    if (!table.empty()) text += (text.empty() ? "[" : "\n[") + table + "]\n";
    text += lines;
  }
  return text;
}

std::vector<OptionInfo> Schema::options() const {
  std::vector<OptionInfo> infos;
  for (const Option& option : options_) infos.push_back(option.info);
  return infos;
}

}  // namespace petaflow
