// What a training says and saves, kept, and compared bit by bit.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "train/trainer.hpp"

namespace petaflow::testing_support {

class Keeper final : public TrainingListener {
 public:
  void interval(const IntervalLine& line) override { lines.push_back(line); }
  void tuned(const TuningLine& line) override { tunings.push_back(line); }
  std::string save(std::int64_t step, Checkpoint checkpoint) override {
    saved.emplace_back(step, std::move(checkpoint));
    return {};
  }
  std::vector<IntervalLine> lines;
  std::vector<TuningLine> tunings;
  std::vector<std::pair<std::int64_t, Checkpoint>> saved;
};

inline void expect_same(const Checkpoint& a, const Checkpoint& b) {
  EXPECT_EQ(a.training, b.training);
  for (const auto& [ours, theirs] :
       {std::pair(&a.weights, &b.weights), std::pair(&a.training_arrays, &b.training_arrays)}) {
    ASSERT_EQ(ours->size(), theirs->size());
    for (std::size_t i = 0; i < ours->size(); ++i) {
      EXPECT_EQ((*ours)[i].name, (*theirs)[i].name);
      EXPECT_EQ((*ours)[i].values, (*theirs)[i].values) << (*ours)[i].name;
    }
  }
}

}  // namespace petaflow::testing_support
