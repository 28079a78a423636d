#include "train/application.hpp"

namespace petaflow {

const NamedMetric* Evaluation::find(const std::string& name) const {
  for (const NamedMetric& metric : metrics) {
    if (metric.name == name) return &metric;
  }
  return nullptr;
}

}  // namespace petaflow
