#include "hep/evaluation_table.hpp"

#include <fmt/format.h>

namespace petaflow::hep {
namespace {

std::string text(const Metric& metric, int digits = 4) { return to_string(metric, digits); }

std::string percent(double rate) { return fmt::format("{:.3g} %", 100 * rate); }

}  // namespace

std::string evaluation_table(const ClassificationReport& report) {
  std::string table =
      fmt::format("  {} signal and {} background events\n  accuracy {}\n  AUC      {}", report.signal_events,
                  report.background_events, text(report.accuracy), text(report.auc));
  for (const EfficiencyAtRate& at : report.at_rates) {
    table += fmt::format("\n  signal efficiency at a background rate of {}: {}", percent(at.background_rate),
                         text(at.signal_efficiency));
  }
  if (report.selection) {
    const SelectionComparison& cuts = *report.selection;
    table += fmt::format("\n  cut selection: background rate {}, signal efficiency {}", text(cuts.background_rate, 5),
                         text(cuts.signal_efficiency));
    table += fmt::format("\n  network at the same background rate: signal efficiency {}", text(cuts.score_efficiency));
    if (cuts.difference.value) table += fmt::format(" (difference {})", text(cuts.difference));
  }
  return table;
}

}  // namespace petaflow::hep
