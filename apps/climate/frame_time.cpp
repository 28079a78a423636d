#include "climate/frame_time.hpp"

#include <chrono>
#include <filesystem>
#include <regex>

#include "base/error.hpp"

namespace petaflow::climate {
namespace {

bool is_day(int year, int month, int day) {
  return std::chrono::year_month_day(std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                     std::chrono::day(static_cast<unsigned>(day)))
      .ok();
}

void check_day(const std::string& text, const char* option) {
  static const std::regex form("([0-9]{4})-([0-9]{2})-([0-9]{2})");
  std::smatch found;
  if (text.empty()) return;
  if (!std::regex_match(text, found, form) || !is_day(std::stoi(found[1]), std::stoi(found[2]), std::stoi(found[3]))) {
    user_error("{} is \"{}\"; a day such as 1996-06-05 was expected", option, text);
  }
}

}  // namespace

std::string time_of_file(const std::string& path) {
  static const std::regex form("(data|label)-([0-9]{4})-([0-9]{2})-([0-9]{2})-([0-9]{2})(-.*|\\..*)?");
  const std::string name = std::filesystem::path(path).filename().string();
  std::smatch found;
  if (!std::regex_match(name, found, form)) return "";
  const int hour = 3 * std::stoi(found[5]);
  if (!is_day(std::stoi(found[2]), std::stoi(found[3]), std::stoi(found[4])) || hour > 23) return "";
  return fmt::format("{}-{}-{}T{:02}:00:00", found[2].str(), found[3].str(), found[4].str(), hour);
}

std::vector<std::string> files_between(const std::vector<std::string>& files, const std::string& from,
                                       const std::string& to) {
  check_day(from, "data.from");
  check_day(to, "data.to");
  if (from.empty() && to.empty()) return files;
  std::vector<std::string> chosen;
  std::string first, last;
  for (const std::string& path : files) {
    const std::string day = time_of_file(path).substr(0, 10);
    if (day.empty()) {
      user_error("{}: data.from and data.to choose files by names such as data-1996-06-05-02-1.h5, which this is not",
                 path);
    }
    if (first.empty() || day < first) first = day;
    if (last.empty() || day > last) last = day;
    if ((from.empty() || day >= from) && (to.empty() || day <= to)) chosen.push_back(path);
  }
  if (chosen.empty()) {
    user_error("none of {} files is from {} to {} (data.from, data.to); they are from {} to {}", files.size(),
               from.empty() ? "any day" : from, to.empty() ? "any day" : to, first, last);
  }
  return chosen;
}

}  // namespace petaflow::climate
