#include "program/application.hpp"

namespace petaflow {

const NamedMetric* Evaluation::find(const std::string& name) const {
  for (const NamedMetric& metric : metrics) {
    if (metric.name == name) return &metric;
  }
  return nullptr;
}

void Evaluation::add(const std::string& name, const Metric& metric, bool higher_is_better) {
  if (metric.value) {
    metrics.push_back({name, *metric.value, higher_is_better});
  } else {
    undefined[name] = metric.reason;
  }
}

}  // namespace petaflow
