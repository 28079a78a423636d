// A self-contained HTML page: style, head, sections.  It needs no network, no script and no other file.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "report/plot.hpp"

namespace petaflow {

/// A figure with its caption (HTML), which the page numbers.
std::string figure(const Plot& plot, const std::string& caption);
std::string figure_of(const std::string& html, const std::string& caption);

/// Figures side by side where there is room; small ones: more of them.
std::string side_by_side(const std::vector<std::string>& figures, bool small = false);

/// A picture with what stands above it.
struct Panel {
  std::string title;
  Plot plot;
};

/// A figure of pictures side by side, all in heat_colour(): its scale below them goes from `low` to `high`.  Texts, and
/// a caption (HTML).
std::string panels(const std::vector<Panel>& pictures, const std::string& low, const std::string& high,
                   const std::string& caption);

/// Words for what colours mean.
std::string legend_html(const std::vector<LegendEntry>& entries);

/// A table with a caption (HTML), which the page numbers.  The first row is the head (all empty: none); cells are HTML.
/// The first column is left aligned, the others right.
/// @param style  "full": as wide as the page; "sum": the last row is a sum; "text": all left aligned; several with
/// spaces
std::string table(const std::vector<std::vector<std::string>>& rows, const std::string& caption,
                  const std::string& style = "");

/// A large number with what it is: label, value, a remark below.
struct KeyNumber {
  std::string label, value, remark;
};

class Page {
 public:
  /// Texts, not HTML.
  Page(std::string title, std::string subtitle) : title_(std::move(title)), subtitle_(std::move(subtitle)) {}

  void key_numbers(const std::vector<KeyNumber>& numbers);
  void section(const std::string& title, const std::string& html);
  /// HTML without a heading of its own.
  void add(const std::string& html) { body_ += html; }

  /// The whole file.
  std::string html() const;

 private:
  std::string title_, subtitle_, body_;
};

}  // namespace petaflow
