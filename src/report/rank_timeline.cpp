#include "report/rank_timeline.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "report/page.hpp"
#include "report/plot.hpp"

namespace petaflow {
namespace {

struct Part {
  const char *region, *label, *tone;
};
constexpr std::array kParts = {Part{"petaflow::input", "input", "s6"}, Part{"petaflow::forward", "forward", "s1"},
                               Part{"petaflow::backward", "backward", "s4"},
                               Part{"petaflow::optimizer", "optimizer", "s5"},
                               Part{"petaflow::communication", "communication", "s2"}};

struct Span {
  std::size_t part;
  double begin_ms, end_ms;
};

std::map<int, std::vector<Span>> spans_of(const nlohmann::json& trace) {
  std::map<int, std::vector<Span>> ranks;
  for (const nlohmann::json& event : trace.value("traceEvents", nlohmann::json::array())) {
    if (event.value("cat", "") != "region") continue;
    const auto part = std::ranges::find(kParts, event.value("name", ""), &Part::region);
    if (part == kParts.end()) continue;
    const double begin_ms = 1e-3 * event.value("ts", 0.0);
    ranks[event.value("pid", 0)].push_back(
        {static_cast<std::size_t>(part - kParts.begin()), begin_ms, begin_ms + 1e-3 * event.value("dur", 0.0)});
  }
  return ranks;
}

}  // namespace

std::string rank_timeline(const nlohmann::json& trace) {
  constexpr double kWidth = 920, kNames = 64, kRow = 16, kGap = 4, kFoot = 38;  // of the drawing
  if (!trace.is_object()) return "";
  std::map<int, std::vector<Span>> ranks = spans_of(trace);
  if (ranks.size() < 2) return "";
  double first_ms = INFINITY, last_ms = -INFINITY;
  for (const auto& [rank, spans] : ranks) {
    for (const Span& span : spans) {
      first_ms = std::min(first_ms, span.begin_ms);
      last_ms = std::max(last_ms, span.end_ms);
    }
  }
  if (!(last_ms > first_ms)) return "";
  const double scale = (kWidth - kNames) / (last_ms - first_ms);
  const double bottom = static_cast<double>(ranks.size()) * (kRow + kGap);
  std::string svg = fmt::format(
      "<svg viewBox=\"0 0 {} {:.0f}\" role=\"img\" aria-label=\"Parts of the traced steps of each rank\">\n", kWidth,
      bottom + kFoot);
  double top = 0;
  for (auto& [rank, spans] : ranks) {
    svg += fmt::format("<text class=\"note\" x=\"0\" y=\"{:.1f}\">rank {}</text>\n", top + kRow - 4, rank);
    // What lies inside of another part is drawn over it.
    std::ranges::stable_sort(spans, [](const Span& a, const Span& b) {
      return a.begin_ms != b.begin_ms ? a.begin_ms < b.begin_ms : a.end_ms > b.end_ms;
    });
    for (const Span& span : spans) {
      const double width = scale * (span.end_ms - span.begin_ms);
      if (width < 0.2) continue;  // nobody sees it
      svg += fmt::format(
          "<rect class=\"{}\" fill=\"currentColor\" x=\"{:.1f}\" y=\"{:.0f}\" width=\"{:.1f}\" "
          "height=\"{:.0f}\"/>",
          kParts[span.part].tone, kNames + scale * (span.begin_ms - first_ms), top, width, kRow);
    }
    svg += "\n";
    top += kRow + kGap;
  }
  for (const Tick& tick : ticks(0, last_ms - first_ms, false, false, 8)) {
    if (tick.label.empty()) continue;
    const double x = kNames + scale * tick.value;
    svg += fmt::format(
        "<path class=\"rule\" d=\"M{:.1f} 0V{:.0f}\"/><text class=\"note\" text-anchor=\"middle\" x=\"{:.1f}\" "
        "y=\"{:.0f}\">{}</text>\n",
        x, bottom, x, bottom + 14, tick.label);
  }
  svg += fmt::format("<text class=\"note\" text-anchor=\"end\" x=\"{}\" y=\"{:.0f}\">ms</text>\n</svg>\n", kWidth,
                     bottom + 30);
  std::vector<LegendEntry> entries;
  for (const Part& part : kParts) entries.push_back({part.label, part.tone, "block"});
  return "<div class=\"wide\">" +
         figure_of(
             legend_html(entries) + svg,
             "What ranks did in the traced steps; between the parts they waited for other groups or read nothing. "
             "Clocks of different hosts are aligned before the first step. All of it, with kernels of rank 0: "
             "trace.json, in ui.perfetto.dev.") +
         "</div>\n";
}

}  // namespace petaflow
