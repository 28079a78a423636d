// kernels.conv = "tune": the implementation and the tiles of every pass of a convolution are those that were the
// fastest when they were timed.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "nn/conv_stage.hpp"

namespace petaflow {

/// One way to compute a pass, and how long it took.
struct ConvTrial {
  const ConvImpl* impl = nullptr;
  bool tiles = true;  // this and the next one: as in ConvPassOptions
  double cache_share = 0;
  double ms = 0;
};

/// Candidates tried for one pass of one layer: first the one that is kept, then the others, the fastest first.
struct TunedPass {
  std::vector<ConvTrial> trials;
  std::string source;  // the file that it is from; empty: timed by this process
  double spread = 0;   // of the kept one's times over the rounds: their median / the shortest - 1
};

/// The pass of a stage as a line of text: two stages with the same text share their choice.
std::string describe_problem(const ConvStage::Options& stage, Pass pass);

/// "winograd 12.1 ms, winograd in larger tiles 12.9 ms, onednn 20.3 ms; kept winograd".
std::string describe(const TunedPass& tuned);

/// Seconds of one pass of a stage that has the memory of a step to itself; the shortest of a few runs.
/// @param give_up_s  where none of the first runs (three at most, of 30 ms together) is shorter, no more follow
double time_conv_pass(const ConvStage::Options& stage, Pass pass, const Context& context, double give_up_s);

class ConvTuning {
 public:
  /// Sets the kernels of each pass of the stage: as the table says where it knows the pass and they still accept it,
  /// otherwise the fastest, which then joins the table.  Tried are all implementations that accept, each in the tiles
  /// that suit it, in two rounds, then the fastest of them too in tiles of half and of twice the size, and on the whole
  /// tensor where the caches of all threads together hold the convolution's output, in two more.  Of those that are as
  /// fast to 3 % the first counts: clocks tell no more, and larger tiles take more memory.
  void tune(ConvStage::Options& stage, const Context& context);

  std::map<std::string, TunedPass> table;  // by describe_problem()
  bool measures = true;                    // false: what is not in the table is computed as "auto" says
  int unknown = 0;                         // how often that has happened
  /// Hears of every choice; may be empty.
  std::function<void(const std::string& layer, Pass pass, const std::string& problem, const TunedPass& tuned)>
      on_choice;
  std::function<double(const ConvStage::Options&, Pass, const Context&, double)> seconds = time_conv_pass;

 private:
  TunedPass measure(ConvStage::Options stage, Pass pass, const Context& context) const;
};

}  // namespace petaflow
