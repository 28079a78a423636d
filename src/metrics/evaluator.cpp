#include "metrics/evaluator.hpp"

#include <cstddef>
#include <cstring>

#include "base/error.hpp"

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

void SampleRows::add(std::int64_t index, std::span<const float> row) {
  PETAFLOW_REQUIRE(std::ssize(row) == width_, "a row of {} numbers, not of {}", row.size(), width_);
  indices_.push_back(index);
  rows_.insert(rows_.end(), row.begin(), row.end());
}

std::vector<float> SampleRows::merge(Communicator& comm) const {
  const std::vector<std::vector<std::byte>> indices = comm.gather(std::as_bytes(std::span(indices_)));
  const std::vector<std::vector<std::byte>> rows = comm.gather(std::as_bytes(std::span(rows_)));
  if (comm.rank() != 0) return {};
  std::size_t samples = 0;
  for (const std::vector<std::byte>& part : indices) samples += part.size() / sizeof(std::int64_t);
  const std::size_t bytes = static_cast<std::size_t>(width_) * sizeof(float);
  std::vector<float> all(samples * static_cast<std::size_t>(width_));
  for (std::size_t rank = 0; rank < indices.size(); ++rank) {
    for (std::size_t i = 0; i < indices[rank].size() / sizeof(std::int64_t); ++i) {
      std::int64_t index = 0;
      std::memcpy(&index, indices[rank].data() + i * sizeof index, sizeof index);
      PETAFLOW_REQUIRE(index >= 0 && static_cast<std::size_t>(index) < samples, "sample {} of {}", index, samples);
      std::memcpy(&all[static_cast<std::size_t>(index * width_)], rows[rank].data() + i * bytes, bytes);
    }
  }
  return all;
}

}  // namespace petaflow
