// Several runs side by side on a page: their colours, and a table with a column for each.
#pragma once

#include <string>
#include <vector>

namespace petaflow {

/// The colour class of the n-th of several: "s1" ... "s8", then from the start.
std::string tone(std::size_t n);

/// Rows of a table (report/page.hpp) with a column for each of several things.
class ComparisonRows {
 public:
  /// @param heads  of the columns, HTML
  explicit ComparisonRows(std::vector<std::string> heads);

  /// Left out where all cells are empty; a single empty one is a dash.  HTML.
  void add(const std::string& what, std::vector<std::string> cells);

  bool empty() const { return rows_.size() == 1; }
  /// The head first.
  const std::vector<std::vector<std::string>>& rows() const { return rows_; }

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace petaflow
