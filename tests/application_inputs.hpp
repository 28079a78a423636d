// What an application's own tests say of its options and inputs: its reference file documents the options, and the
// input files for it load.
#pragma once

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "config/document.hpp"
#include "config/reference.hpp"
#include "config/schema.hpp"
#include "kernels/conv.hpp"
#include "program/commands.hpp"
#include "program/configuration.hpp"
#include "program/task.hpp"

namespace petaflow {

/// The words on the lines of an option that takes some words only, value and comment, and those that it takes.
struct Words {
  std::string option;
  std::set<std::string> said, taken;
};

/// What stands between quotes in a text.
inline std::set<std::string> words_in_quotes(const std::string& text) {
  std::set<std::string> words;
  for (std::size_t open = text.find('"'); open != text.npos; open = text.find('"', open + 1)) {
    const std::size_t word = open + 1;
    open = text.find('"', word);
    if (open == text.npos) break;
    words.insert(text.substr(word, open - word));
  }
  return words;
}

inline std::vector<Words> words_of(const Schema& schema, const std::string& toml_file) {
  const std::string text = read_text_file(toml_file);
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  const std::vector<Entry> entries = parse_document(text, toml_file);
  std::vector<Words> result;
  for (const OptionInfo& option : schema.options()) {
    const auto entry = std::ranges::find(entries, option.name, &Entry::key);
    if (!option.constraint.starts_with("one of ") || entry == entries.end()) continue;
    std::string said;
    for (int line = entry->line; line <= entry->end_line; ++line) said += lines.at(static_cast<std::size_t>(line - 1));
    result.push_back({option.name, words_in_quotes(said), words_in_quotes(option.constraint)});
  }
  return result;
}

/// Options whose words are names in lists of the code, of which the reference gives examples, with the words that are
/// no such name.
inline std::map<std::string, std::set<std::string>> options_of_names() {
  std::set<std::string> conv_words;
  for (const auto& [word, request] : conv_requests()) {
    if (request.impl == nullptr) conv_words.insert(word);
  }
  return {{"comm.reduction", {"auto", "tune", "tree"}},
          {"kernels.conv", conv_words},
          {"kernels.gemm", {"auto"}},
          {"optimizer.name", {}}};
}

/// Expects that a reference file has every option with its default and a comment, no other, and the words it takes.
inline void expect_documented(const Schema& schema, const std::string& reference) {
  for (const std::string& sentence : compare_with_reference(schema, reference)) ADD_FAILURE() << sentence;
  const std::vector<Words> all = words_of(schema, reference);
  EXPECT_FALSE(all.empty()) << reference;
  const auto named = options_of_names();
  for (const Words& words : all) {
    if (named.contains(words.option)) continue;
    EXPECT_EQ(words.said, words.taken) << words.option;
  }
}

/// The application that an input file is for; "" where it does not say.
inline std::string application_of(const std::string& file) {
  for (const Entry& entry : parse_document(read_text_file(file), file)) {
    if (entry.key == "application") return std::get<std::string>(std::get<Scalar>(entry.value));
  }
  return "";
}

/// The files in inputs, without those that document options.
inline std::vector<std::string> input_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator("inputs")) {
    const std::filesystem::path& path = entry.path();
    if (path.extension() == ".toml" && !path.filename().string().starts_with("reference")) files.push_back(path);
  }
  std::ranges::sort(files);
  return files;
}

/// Expects that a reference file has every option of an application beyond those of all.
template <class ApplicationTask>
void expect_options_documented(const std::string& reference) {
  ApplicationTask task;
  Schema schema;
  task.declare(schema);
  expect_documented(schema, reference);
}

/// Expects that the inputs for an application load, agree with their ranges, say where their data come from and
/// describe a network, and that making values again, where they ask for it, saves memory.
template <class ApplicationTask>
void expect_inputs_load() {
  int loaded = 0;
  for (const std::string& file : input_files()) {
    ApplicationTask task;
    if (application_of(file) != task.name()) continue;
    ++loaded;
    SCOPED_TRACE(file);
    Configuration config(task);
    EXPECT_NO_THROW(config.schema.load(file, {}));
    EXPECT_NO_THROW(static_cast<void>(config.schema.drop_idle()));
    EXPECT_NO_THROW(check(config.options));
    EXPECT_FALSE(config.options.data.source.empty()) << "data.source says what the files are and who has them";
    Graph graph(task.sample_shape());
    EXPECT_NO_THROW(graph = task.model(task.sample_shape()));
    NetworkOptions options = network_options(config.options, config.options.train.batch);
    if (options.recompute == 1) continue;
    options.runs = false;
    const std::string saved = describe_recompute(graph, options, Network(graph, options, Context()));
    EXPECT_EQ(saved.find("saves no memory"), saved.npos) << saved;
  }
  EXPECT_GT(loaded, 0);
}

}  // namespace petaflow
