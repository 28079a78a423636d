// Plots as inline SVG: axes with sensible ticks, lines, histograms, points, pictures.  Colours are CSS classes of the
// page ("s1" ... "s8", "signal", "background", "ink"), so that one drawing serves light, dark and print.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace petaflow {

struct Axis {
  std::string label;  // with its unit
  bool log = false;
  std::optional<double> low = {}, high = {};  // not given: from the data, with some air
  bool whole = false;                         // ticks at whole numbers only
};

enum class Stroke { kFull, kFaint, kDashed };

/// An entry of the legend.
struct LegendEntry {
  std::string label, tone;
  std::string mark;  // "line", "faint", "dashed", "area", "dot", "star"
};

/// Positions and labels of an axis.
struct Tick {
  double value;
  std::string label;  // empty: a minor tick
};

/// About `count` round steps (1, 2 or 5 times a power of ten) on a linear axis; the decades of a logarithmic one, with
/// minor ticks between them, which have labels too where the axis spans fewer than two decades.
std::vector<Tick> ticks(double low, double high, bool log, bool whole, int count = 5);

class Plot {
 public:
  Plot(Axis x, Axis y, double width = 440, double height = 300);

  /// A line through the points; interrupted at what is not finite (or not positive on a logarithmic axis).  Long ones
  /// are thinned to what a screen shows, minima and maxima kept; short ones show their points.
  void line(std::span<const double> x, std::span<const double> y, const std::string& tone, const std::string& label,
            Stroke stroke = Stroke::kFull);
  /// A line that has no points of its own: the outline of something.
  void outline(std::span<const double> x, std::span<const double> y, const std::string& tone);
  /// Dots, each with a text that appears under the mouse; where there are many, small and translucent ones.
  void points(std::span<const double> x, std::span<const double> y, const std::string& tone, const std::string& label,
              const std::vector<std::string>& tips = {});
  /// heights[i] from edges[i] to edges[i + 1], filled lightly.
  void histogram(std::span<const double> edges, std::span<const double> heights, const std::string& tone,
                 const std::string& label);
  void star(double x, double y, const std::string& tone, const std::string& label);
  /// A dashed line across the plot with a small text at its end.
  void rule_x(double x, const std::string& text);
  void rule_y(double y, const std::string& text);
  /// A picture over [x0, x1] x [y0, y1], pixels kept sharp.
  void image(const std::string& uri, double x0, double x1, double y0, double y1);

  /// @param description  for those who cannot see it: HTML without tags
  std::string svg(const std::string& description) const;
  const std::vector<LegendEntry>& legend() const { return legend_; }

 private:
  struct Mark {
    enum class Kind { kLine, kOutline, kPoints, kHistogram, kStar, kRuleX, kRuleY, kImage } kind;
    std::vector<double> x, y;
    std::string tone, text;
    Stroke stroke = Stroke::kFull;
    std::vector<std::string> tips;
  };
  struct Scale {
    double low = 0, high = 1, from = 0, to = 1;  // data, pixels
    bool log = false;
    double operator()(double value) const;
    bool takes(double value) const;
  };

  void add(Mark mark, const std::string& label, const std::string& legend_mark);
  Scale scale(const Axis& axis, std::vector<double> Mark::* values, double from, double to) const;
  std::string draw(const Mark& mark, const Scale& x, const Scale& y) const;

  Axis x_, y_;
  double width_, height_;
  std::vector<Mark> marks_;
  std::vector<LegendEntry> legend_;
};

}  // namespace petaflow
