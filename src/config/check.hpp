// Constraints on the value of an option, each with the words that complete "<option> must be ...".
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace petaflow {

/// At most one of number and word is set; for a list it holds for each element.  No constraint: both are empty.
struct Check {
  std::string text;                                   // "at least 1"
  std::function<bool(double)> number = {};            // for integers and numbers; integers above 2^53 are rounded
  std::function<bool(const std::string&)> word = {};  // for strings
};

Check at_least(double low);
Check positive();
Check in_range(double low, double high);       // both ends belong to it
Check from_to_below(double low, double high);  // high does not
Check one_of(std::vector<std::string> words);
/// Check of the option that says which application an input file is for.
Check is_application(const std::string& name);
Check not_empty();  // a string with at least one character

}  // namespace petaflow
