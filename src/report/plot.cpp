#include "report/plot.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "base/error.hpp"
#include "report/html.hpp"

namespace petaflow {
namespace {

constexpr double kLeft = 50, kRight = 12, kTop = 26, kBottom = 40;
constexpr std::size_t kMostPoints = 1000;  // of a line: more than a plot has pixels
constexpr std::size_t kManyDots = 200;
constexpr std::size_t kFewPoints = 12;  // of a line that shows them: what lies between them is not known

std::string number(double value) {
  const std::string text = fmt::format("{:.1f}", value);
  return text == "-0.0" ? "0.0" : text;
}

/// The lowest and highest of each of kMostPoints / 2 ranges of indices, in their order.
std::vector<std::size_t> thinned(std::span<const double> y) {
  std::vector<std::size_t> kept;
  if (y.size() <= kMostPoints) {
    for (std::size_t i = 0; i < y.size(); ++i) kept.push_back(i);
    return kept;
  }
  constexpr std::size_t kRanges = kMostPoints / 2;
  for (std::size_t r = 0; r < kRanges; ++r) {
    const std::size_t begin = y.size() * r / kRanges, end = y.size() * (r + 1) / kRanges;
    std::size_t low = begin, high = begin;
    for (std::size_t i = begin; i < end; ++i) {
      if (!std::isfinite(y[i])) low = high = i;  // the gap stays
      if (y[i] < y[low]) low = i;
      if (y[i] > y[high]) high = i;
    }
    kept.push_back(std::min(low, high));
    if (low != high) kept.push_back(std::max(low, high));
  }
  return kept;
}

/// 1, 2, 5, 10, ... times a power of ten, at least `least`.
double round_step(double least) {
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

std::vector<Tick> log_ticks(double low, double high) {
  const double decades = std::log10(high / low);
  const int every = std::max(1, static_cast<int>(std::ceil(decades / 6)));
  std::vector<Tick> result;
  for (int exponent = static_cast<int>(std::floor(std::log10(low))); exponent <= std::ceil(std::log10(high));
       ++exponent) {
    for (int factor = 1; factor < (every == 1 ? 10 : 2); ++factor) {
      const double value = factor * std::pow(10.0, exponent);
      if (value < low * (1 - 1e-9) || value > high * (1 + 1e-9)) continue;
      const bool labelled = factor == 1 ? exponent % every == 0 : decades < 2 && (factor == 2 || factor == 5);
      const bool plain = decades <= 6 && exponent >= -4 && exponent <= 5;
      std::string label = plain ? readable(value, 1) : power_of_ten(exponent);
      if (!plain && factor != 1) label.clear();
      result.push_back({value, labelled ? label : ""});
    }
  }
  return result;
}

}  // namespace

std::vector<Tick> ticks(double low, double high, bool log, bool whole, int count) {
  if (log) return log_ticks(low, high);
  double step = round_step((high - low) / count);
  if (whole) step = std::max(1.0, step);
  const int decimals = std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)));
  std::vector<Tick> result;
  for (double i = std::ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; ++i) {
    const double value = i * step;
    result.push_back({value, std::abs(value) < 1e6 && decimals < 5 ? grouped(value, decimals) : readable(value, 3)});
  }
  return result;
}

double Plot::Scale::operator()(double value) const {
  const double part = log ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
  return from + (to - from) * part;
}

bool Plot::Scale::takes(double value) const { return std::isfinite(value) && (!log || value > 0); }

Plot::Plot(Axis x, Axis y, double width, double height)
    : x_(std::move(x)), y_(std::move(y)), width_(width), height_(height) {}

void Plot::add(Mark mark, const std::string& label, const std::string& legend_mark) {
  PETAFLOW_REQUIRE(mark.kind == Mark::Kind::kHistogram
                       ? mark.x.size() == mark.y.size() + 1
                       : mark.x.size() == mark.y.size() || mark.x.empty() || mark.y.empty(),
                   "{} and {} coordinates of \"{}\"", mark.x.size(), mark.y.size(), label);
  if (!label.empty()) legend_.push_back({label, mark.tone, legend_mark});
  marks_.push_back(std::move(mark));
}

void Plot::line(std::span<const double> x, std::span<const double> y, const std::string& tone, const std::string& label,
                Stroke stroke) {
  Mark mark{Mark::Kind::kLine, {}, {}, tone, "", stroke, {}};
  for (const std::size_t i : thinned(y)) {
    mark.x.push_back(x[i]);
    mark.y.push_back(y[i]);
  }
  add(std::move(mark), label, stroke == Stroke::kFull ? "line" : stroke == Stroke::kFaint ? "faint" : "dashed");
}

void Plot::outline(std::span<const double> x, std::span<const double> y, const std::string& tone) {
  add({Mark::Kind::kOutline, {x.begin(), x.end()}, {y.begin(), y.end()}, tone, "", Stroke::kFull, {}}, "", "");
}

void Plot::points(std::span<const double> x, std::span<const double> y, const std::string& tone,
                  const std::string& label, const std::vector<std::string>& tips) {
  add({Mark::Kind::kPoints, {x.begin(), x.end()}, {y.begin(), y.end()}, tone, "", Stroke::kFull, tips}, label, "dot");
}

void Plot::histogram(std::span<const double> edges, std::span<const double> heights, const std::string& tone,
                     const std::string& label) {
  add({Mark::Kind::kHistogram,
       {edges.begin(), edges.end()},
       {heights.begin(), heights.end()},
       tone,
       "",
       Stroke::kFull,
       {}},
      label, "area");
}

void Plot::star(double x, double y, const std::string& tone, const std::string& label) {
  add({Mark::Kind::kStar, {x}, {y}, tone, "", Stroke::kFull, {label}}, label, "star");
}

void Plot::rule_x(double x, const std::string& text) {
  add({Mark::Kind::kRuleX, {x}, {}, "", text, Stroke::kDashed, {}}, "", "");
}

void Plot::rule_y(double y, const std::string& text) {
  add({Mark::Kind::kRuleY, {}, {y}, "", text, Stroke::kDashed, {}}, "", "");
}

void Plot::image(const std::string& uri, double x0, double x1, double y0, double y1) {
  add({Mark::Kind::kImage, {x0, x1}, {y0, y1}, "", uri, Stroke::kFull, {}}, "", "");
}

Plot::Scale Plot::scale(const Axis& axis, std::vector<double> Mark::* values, double from, double to) const {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  bool is_histogram = false, is_image = false, has_note = false;
  for (const Mark& mark : marks_) {
    is_histogram |= mark.kind == Mark::Kind::kHistogram;
    is_image |= mark.kind == Mark::Kind::kImage;
    has_note |= mark.kind == Mark::Kind::kRuleX && !mark.text.empty();
    for (const double value : mark.*values) {
      if (!std::isfinite(value) || (axis.log && value <= 0)) continue;
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  if (low > high) low = axis.log ? 0.1 : 0, high = 1;
  const bool tight = is_image || (is_histogram && values == &Mark::x);
  // Notes of rules stand in the uppermost tenth, above the columns of a histogram.
  const double above = is_histogram && has_note && values == &Mark::y ? 0.15 : 0.05;
  if (axis.log) {
    const double range = std::max(high / low, 1.5);
    low /= tight ? 1 : std::pow(range, 0.05);
    high *= tight ? 1 : std::pow(range, above);
  } else {
    const double alone = axis.whole || high == 0 ? 0.5 : 0.5 * std::abs(high);  // around a single value
    low -= tight ? 0 : high > low ? 0.05 * (high - low) : alone;
    high += tight ? 0 : high > low ? above * (high - low) : alone;
  }
  low = axis.low.value_or(low);
  high = axis.high.value_or(high);
  if (!(high > low)) high = axis.log ? 10 * low : low + 1;
  return {low, high, from, to, axis.log};
}

std::string Plot::draw(const Mark& mark, const Scale& x, const Scale& y) const {
  std::string out;
  const auto tip = [](const std::string& text) {
    return text.empty() ? std::string() : "<title>" + html_escape(text) + "</title>";
  };
  switch (mark.kind) {
    case Mark::Kind::kLine:
    case Mark::Kind::kOutline: {
      std::string path;
      bool pen = false;
      for (std::size_t i = 0; i < mark.x.size(); ++i) {
        if (!x.takes(mark.x[i]) || !y.takes(mark.y[i])) {
          pen = false;
          continue;
        }
        path += (pen ? "L" : "M") + number(x(mark.x[i])) + " " + number(y(mark.y[i])) + (pen ? "" : "h0");
        pen = true;  // h0: a point that stands alone is a dot
      }
      const char* const kind = mark.stroke == Stroke::kFull ? "" : mark.stroke == Stroke::kFaint ? " faint" : " dashed";
      out = fmt::format("<path class=\"line {}{}\" d=\"{}\"/>\n", mark.tone, kind, path);
      const bool shows_points = mark.kind == Mark::Kind::kLine && mark.x.size() <= kFewPoints;
      for (std::size_t i = 0; i < mark.x.size() && shows_points; ++i) {
        if (!x.takes(mark.x[i]) || !y.takes(mark.y[i])) continue;
        out += fmt::format("<circle class=\"dot {}\" cx=\"{}\" cy=\"{}\" r=\"2\"/>\n", mark.tone, number(x(mark.x[i])),
                           number(y(mark.y[i])));
      }
      break;
    }
    case Mark::Kind::kPoints:
      for (std::size_t i = 0; i < mark.x.size(); ++i) {
        if (!x.takes(mark.x[i]) || !y.takes(mark.y[i])) continue;
        const bool small = mark.x.size() > kManyDots;
        out += fmt::format("<circle class=\"dot {}{}\" cx=\"{}\" cy=\"{}\" r=\"{}\">{}</circle>\n", mark.tone,
                           small ? " small" : "", number(x(mark.x[i])), number(y(mark.y[i])), small ? "1.7" : "3",
                           tip(i < mark.tips.size() ? mark.tips[i] : ""));
      }
      break;
    case Mark::Kind::kHistogram: {
      const double floor = y.from;
      const auto top = [&](double value) { return y.takes(value) ? std::min(y(value), floor) : floor; };
      std::string path = fmt::format("M{} {}", number(x(mark.x.front())), number(floor));
      for (std::size_t i = 0; i < mark.y.size(); ++i) {
        path += "V" + number(top(mark.y[i])) + "H" + number(x(mark.x[i + 1]));
      }
      path += "V" + number(floor);
      out = fmt::format("<path class=\"area {0}\" d=\"{1}\"/><path class=\"line {0}\" d=\"{1}\"/>\n", mark.tone, path);
      break;
    }
    case Mark::Kind::kStar: {
      if (!x.takes(mark.x[0]) || !y.takes(mark.y[0])) break;
      std::string corners;
      for (int i = 0; i < 10; ++i) {
        const double angle = (i - 2.5) * 0.2 * std::numbers::pi, radius = i % 2 == 0 ? 7.5 : 3.1;
        corners += number(x(mark.x[0]) + radius * std::cos(angle)) + "," +
                   number(y(mark.y[0]) + radius * std::sin(angle)) + " ";
      }
      corners.pop_back();
      out =
          fmt::format("<polygon class=\"dot {}\" points=\"{}\">{}</polygon>\n", mark.tone, corners, tip(mark.tips[0]));
      break;
    }
    case Mark::Kind::kRuleX: {
      const double at = x(mark.x[0]);
      const bool right = at > 0.7 * x.to;
      out = fmt::format(
          "<path class=\"rule\" d=\"M{0} {1}V{2}\"/><text class=\"note\" x=\"{3}\" y=\"{4}\"{5}>{6}</text>\n",
          number(at), number(y.from), number(y.to), number(at + (right ? -5 : 5)), number(y.to + 13),
          right ? " text-anchor=\"end\"" : "", html_escape(mark.text));
      break;
    }
    case Mark::Kind::kRuleY: {
      const double at = y(mark.y[0]);
      out = fmt::format("<path class=\"rule\" d=\"M{} {}H{}\"/><text class=\"note\" x=\"{}\" y=\"{}\">{}</text>\n",
                        number(x.from), number(at), number(x.to), number(x.from + 6), number(at - 5),
                        html_escape(mark.text));
      break;
    }
    case Mark::Kind::kImage:
      out = fmt::format(
          "<image href=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" preserveAspectRatio=\"none\"/>\n",
          html_escape(mark.text), number(x(mark.x[0])), number(y(mark.y[1])), number(x(mark.x[1]) - x(mark.x[0])),
          number(y(mark.y[0]) - y(mark.y[1])));
      break;
  }
  return out;
}

std::string Plot::svg(const std::string& description) const {
  const double right = width_ - kRight, bottom = height_ - kBottom;
  const Scale x = scale(x_, &Mark::x, kLeft, right), y = scale(y_, &Mark::y, bottom, kTop);
  std::string spoken = description;
  std::ranges::replace(spoken, '"', '\'');
  std::string out =
      fmt::format("<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\">\n", width_, height_, spoken);
  std::string grid, small, labels;
  for (const Tick& tick : ticks(x.low, x.high, x_.log, x_.whole, std::max(3, static_cast<int>(width_ / 75)))) {
    const std::string at = number(x(tick.value));
    if (tick.label.empty()) {
      small += fmt::format("M{} {}v4", at, number(bottom));
      continue;
    }
    grid += fmt::format("M{} {}V{}", at, number(bottom), number(kTop));
    labels += fmt::format("<text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>", at,
                          number(bottom + 16), html_escape(tick.label));
  }
  for (const Tick& tick : ticks(y.low, y.high, y_.log, y_.whole)) {
    const double at = y(tick.value);
    if (tick.label.empty()) {
      small += fmt::format("M{} {}h-4", number(kLeft), number(at));
      continue;
    }
    grid += fmt::format("M{} {}H{}", number(kLeft), number(at), number(right));
    labels += fmt::format("<text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>", number(kLeft - 7),
                          number(at + 4), html_escape(tick.label));
  }
  out += "<path class=\"grid\" d=\"" + grid + "\"/>\n";
  // Marks outside of the axes are cut by an inner drawing of that size.
  out += fmt::format("<svg x=\"{0}\" y=\"{1}\" width=\"{2}\" height=\"{3}\" viewBox=\"{0} {1} {2} {3}\">\n", kLeft,
                     kTop, right - kLeft, bottom - kTop);
  for (const Mark& mark : marks_) out += draw(mark, x, y);
  out += "</svg>\n";
  out += fmt::format("<path class=\"axis\" d=\"M{} {}V{}H{}{}\"/>\n", number(kLeft), number(kTop), number(bottom),
                     number(right), small);
  out += labels;
  out += fmt::format("\n<text class=\"label\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>", number(right),
                     number(height_ - 5), html_escape(x_.label));
  out += fmt::format("<text class=\"label\" x=\"{}\" y=\"14\">{}</text>\n</svg>\n", number(2), html_escape(y_.label));
  return out;
}

}  // namespace petaflow
