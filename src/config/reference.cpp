// Comparing the documented input file with the declared options.
#include "config/reference.hpp"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>

#include "config/document.hpp"

namespace petaflow {
namespace {

std::string line_of(const std::vector<std::string>& lines, int number) {
  return number >= 1 && number <= static_cast<int>(lines.size()) ? lines[number - 1] : "";
}

bool has_comment(const std::vector<std::string>& lines, const Entry& entry) {
  const std::string above = line_of(lines, entry.line - 1), own = line_of(lines, entry.end_line);
  const std::size_t begin = above.find_first_not_of(" \t");
  if (begin != above.npos && above[begin] == '#') return true;
  return own.find('#', static_cast<std::size_t>(entry.end_column - 1)) != own.npos;
}

}  // namespace

std::vector<std::string> compare_with_reference(const Schema& schema, const std::string& toml_file) {
  const std::string text = read_text_file(toml_file);
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);

  std::vector<std::string> sentences;
  const std::vector<Entry> entries = parse_document(text, toml_file);
  const std::vector<OptionInfo> options = schema.options();
  for (const OptionInfo& option : options) {
    const auto entry =
        std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.key == option.name; });
    if (entry == entries.end()) {
      sentences.push_back(
          fmt::format("{}: {} is missing; its default is {}", toml_file, option.name, option.default_value));
      continue;
    }
    const std::string where = fmt::format("{}:{}: {}", toml_file, entry->line, option.name),
                      value = to_toml(entry->value);
    if (value != option.default_value) {
      sentences.push_back(fmt::format("{} must be {}, its default, found {}", where, option.default_value, value));
    }
    if (!has_comment(lines, *entry)) {
      sentences.push_back(fmt::format("{} must have a comment beside it or on the line above", where));
    }
  }
  for (const Entry& entry : entries) {
    const bool known =
        std::any_of(options.begin(), options.end(), [&](const OptionInfo& option) { return option.name == entry.key; });
    if (!known) sentences.push_back(fmt::format("{}:{}: {} is not an option", toml_file, entry.line, entry.key));
  }
  return sentences;
}

}  // namespace petaflow
