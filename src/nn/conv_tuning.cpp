#include "nn/conv_tuning.hpp"

#include <algorithm>
#include <climits>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "base/region.hpp"
#include "nn/arena.hpp"

namespace petaflow {

namespace {

ConvPassOptions& kernels_of(ConvStage::Options& stage, Pass pass) {
  return stage.kernels[static_cast<std::size_t>(pass)];
}

bool accepts(const ConvStage::Options& stage, Pass pass, const Context& context) {
  const ConvImpl& impl = *stage.kernels[static_cast<std::size_t>(pass)].conv.impl;
  return impl.why_not(pass_of(stage.role, pass), ConvStage::cut(stage, pass, context).shapes).empty();
}

void use(ConvStage::Options& stage, Pass pass, const ConvTrial& trial) {
  kernels_of(stage, pass) = {{ConvRequest::Rule::kOnly, trial.impl}, trial.tiles, trial.cache_share};
}

std::string pads(const Extent& begin, const Extent& end) {
  return fmt::format("{},{},{}:{},{},{}", begin.d, begin.h, begin.w, end.d, end.h, end.w);
}

std::string name_of(const ConvTrial& trial) {
  std::string name = trial.impl->name;
  if (!trial.tiles) return name + " whole";
  if (trial.cache_share == kCacheShare) return name;
  return name + (trial.cache_share < kCacheShare ? " in smaller tiles" : " in larger tiles");
}

}  // namespace

std::string describe_problem(const ConvStage::Options& stage, Pass pass) {
  const ConvDesc& conv = stage.conv;
  const ConvGeometry& g = conv.geometry;
  const PoolGeometry& pool = stage.epilogue.pool;
  std::string text =
      fmt::format("{} {} {} x {} -> {}, kernel {} stride {} dilation {} pad {} groups {}", name_of(pass),
                  name_of(conv.type), conv.n, sample_to_string({1, conv.in_channels, conv.in.d, conv.in.h, conv.in.w}),
                  sample_to_string({1, conv.out_channels, conv.out.d, conv.out.h, conv.out.w}), to_string(g.kernel),
                  to_string(g.stride), to_string(g.dilation), pads(g.pad_begin, g.pad_end), g.groups);
  if (pool.kind != PoolKind::kNone) {
    text += fmt::format(", {} pool {} stride {} pad {}", pool.kind == PoolKind::kMax ? "max" : "average",
                        to_string(pool.window), to_string(pool.stride), pads(pool.pad, pool.pad));
  }
  if (stage.bias) text += ", bias";
  if (stage.norm) text += ", batch norm";
  if (stage.residual) text += ", residual";
  if (stage.epilogue.activation) text += ", activation";
  if (stage.role == ConvRole::kTransposed) text += ", transposed";
  if (stage.y_is_slice) text += ", y a slice";
  if (stage.x_pixel_stride() != stage.x().c) text += fmt::format(", slice of {} channels", stage.x_pixel_stride());
  if (conv.products == F32Products::kSplit3) text += ", split3";
  if (conv.products == F32Products::kTf32) text += ", tf32";
  if (!stage.kernels[static_cast<std::size_t>(pass)].tiles) text += ", whole";
  return text;
}

std::string describe(const TunedPass& tuned) {
  std::string text;
  for (const ConvTrial& trial : tuned.trials) {
    text += fmt::format("{}{} {:.2f} ms", text.empty() ? "" : ", ", name_of(trial), trial.ms);
  }
  return fmt::format("{}; kept {}", text, name_of(tuned.trials.front()));
}

double time_conv_pass(const ConvStage::Options& stage, Pass pass, const Context& context, double give_up_s) {
  ConvStage::Options options = stage;
  options.epilogue.dropout = 0;  // would need the state of a step
  options.weight.offset = 0;
  const std::int64_t weights = options.conv.weight_elements();
  if (options.bias) options.bias->offset = weights;
  if (options.norm) options.norm = RunningNorm{};  // its map is made when weights change, not in each step
  if (pass != Pass::kForward) options.backward = true;
  options.wants_dx = pass == Pass::kBackwardData;
  ConvStage timed(options, context);

  const ConvDesc& conv = options.conv;
  const Tensor x{options.x(), conv.type, options.x_pixel_stride()};
  const Shape& y = options.epilogue.y;
  const DType y_type = options.epilogue.type;
  const auto bytes_of = [](const Shape& shape, DType type) {
    return static_cast<std::size_t>(shape.elements()) * size_of(type);
  };
  const std::size_t parameter_bytes = static_cast<std::size_t>(weights + options.epilogue.v.c) * sizeof(float);
  std::vector<MemoryBlock> blocks;
  const auto add = [&](const char* label, std::size_t size_bytes) {
    blocks.push_back({label, size_bytes, kForever, INT_MAX});
    return blocks.size() - 1;
  };
  const std::size_t x_block = add("x", x.size_bytes()), y_block = add("y", bytes_of(y, y_type));
  const std::size_t dx_block = add("dx", options.wants_dx ? x.size_bytes() : 0);
  const std::size_t residual_bytes = options.residual ? bytes_of(options.epilogue.v, y_type) : 0,
                    residual_block = add("residual", residual_bytes),
                    residual_gradient_block = add("residual gradient", options.backward ? residual_bytes : 0);
  const std::size_t dy_block = add("dy", options.backward ? bytes_of(y, y_type) : 0);
  const std::size_t weights_block = add("weights", parameter_bytes), gradient_block = add("gradient", parameter_bytes);
  const std::size_t saved_block = add("saved", timed.saved_bytes());
  const std::size_t scratch_block =
      add("scratch", std::max(timed.forward_scratch_bytes(), timed.backward_scratch_bytes()));
  const Arena arena(blocks);
  // The time does not depend on the values, unless they are denormal or not numbers: as f32 and as bf16 these bytes are
  // 0.05.
  for (const std::size_t index : {x_block, residual_block, dy_block, weights_block}) {
    using Bytes = Kokkos::View<unsigned char*, MemorySpace, Kokkos::MemoryUnmanaged>;
    const Bytes bytes(reinterpret_cast<unsigned char*>(arena.block(index)), blocks[index].size_bytes);
    Kokkos::deep_copy(context.space, bytes, 0x3D);
  }
  const auto at = [&](std::size_t block) {
    Tensor placed = x;
    placed.data = arena.block(block);
    return placed;
  };
  timed.buffers.x = {at(x_block)};
  timed.buffers.y = {Tensor::dense(y, y_type, arena.block(y_block))};
  timed.buffers.dx = {options.wants_dx ? at(dx_block) : Tensor{}};
  timed.buffers.dy = {options.backward ? Tensor::dense(y, y_type, arena.block(dy_block)) : Tensor{}};
  timed.buffers.adds = {false, false};
  if (options.residual) {
    const auto residual = [&](std::size_t block) {
      return Tensor::dense(options.epilogue.v, y_type, arena.block(block));
    };
    timed.buffers.x.push_back(residual(residual_block));
    timed.buffers.dx.push_back(options.backward ? residual(residual_gradient_block) : Tensor{});
  }
  timed.buffers.weights = reinterpret_cast<const float*>(arena.block(weights_block));
  timed.buffers.saved = arena.block(saved_block);
  timed.buffers.forward_scratch = timed.buffers.backward_scratch = arena.block(scratch_block);
  auto* gradient = reinterpret_cast<float*>(arena.block(gradient_block));

  Context now = context;
  now.training = options.backward;
  const auto run = [&](Pass what) {
    const Kokkos::Timer timer;
    timed.run(now, what, gradient);
    now.space.fence();
    return timer.seconds();
  };
  if (pass != Pass::kForward) run(Pass::kForward);  // writes what backward reads
  constexpr int kFirstRuns = 3, kMostRuns = 10;
  constexpr double kEnough_s = 0.03;
  double best_s = run(pass), total_s = best_s;  // with page faults of the library's own memory
  // A short run may be slow because others took the processor for a while.
  for (int i = 1; i < kFirstRuns && best_s > give_up_s && total_s < kEnough_s; ++i) {
    const double run_s = run(pass);
    best_s = std::min(best_s, run_s);
    total_s += run_s;
  }
  if (best_s > give_up_s) return best_s;
  total_s = 0;
  for (int i = 0; i < kMostRuns && total_s < kEnough_s; ++i) {
    const double run_s = run(pass);
    best_s = std::min(best_s, run_s);
    total_s += run_s;
  }
  return best_s;
}

namespace {

/// One way to compute a pass, with its times in the rounds so far.
struct Candidate {
  ConvTrial trial;
  std::vector<double> seconds = {};

  double best_s() const { return std::ranges::min(seconds); }
  double spread() const {
    std::vector<double> sorted = seconds;
    std::ranges::sort(sorted);
    const std::size_t n = sorted.size();
    return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2 / sorted[0] - 1;
  }
};

}  // namespace

// Two cuts are the same where they have as many tiles and the first ones are as high.  A round times every candidate
// once, so that what else the machine does for a while meets all of them.
TunedPass ConvTuning::measure(ConvStage::Options stage, Pass pass, const Context& context) const {
  const Region region("petaflow::tuning");
  const bool tiles = kernels_of(stage, pass).tiles;
  std::vector<Candidate> candidates;
  std::vector<std::string> done;  // implementation and cut
  double best_s = std::numeric_limits<double>::infinity();
  const auto add = [&](ConvTrial trial) {
    use(stage, pass, trial);
    if (!accepts(stage, pass, context)) return;
    const Tiling cut = ConvStage::cut(stage, pass, context);
    const TileRange& first = cut.tiles.front().v;
    std::string what = fmt::format("{} {} {} {} {}", trial.impl->name, cut.tiles.size(), first.sample.size(),
                                   first.d.size(), first.h.size());
    if (std::ranges::find(done, what) != done.end()) return;
    done.push_back(std::move(what));
    candidates.push_back({trial});
  };
  // Without those that were too slow in the rounds before; the first time is trusted less.
  const auto time_all = [&] {
    const double before_s = best_s;
    for (Candidate& candidate : candidates) {
      const std::size_t rounds = candidate.seconds.size();
      if (rounds > 0 && (candidates.size() == 1 || candidate.best_s() > (rounds == 1 ? 3 : 2) * before_s)) continue;
      use(stage, pass, candidate.trial);
      candidate.seconds.push_back(seconds(stage, pass, context, 3 * best_s));
      best_s = std::min(best_s, candidate.seconds.back());
    }
  };
  const auto first_of_the_fastest = [&] {
    return std::ranges::find_if(candidates, [&](const Candidate& c) { return c.best_s() <= 1.03 * best_s; });
  };
  const ConvDesc usual = ConvStage::cut(stage, pass, context).shapes.front();
  for (const ConvImpl* impl : conv_impls(pass_of(stage.role, pass), usual)) add({impl, tiles, kCacheShare});
  time_all();
  time_all();
  if (tiles) {
    const ConvImpl* impl = first_of_the_fastest()->trial.impl;
    add({impl, true, 0.5 * kCacheShare});
    add({impl, true, 2 * kCacheShare});
    const Shape& v = stage.epilogue.v;
    const auto v_bytes = v.elements() * static_cast<std::int64_t>(size_of(stage.conv.type));
    if (v_bytes <= context.threads * level2_bytes()) add({impl, false, kCacheShare});
  }
  time_all();
  time_all();
  std::rotate(candidates.begin(), first_of_the_fastest(), first_of_the_fastest() + 1);
  std::sort(candidates.begin() + 1, candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.best_s() < b.best_s(); });
  TunedPass tuned;
  for (Candidate& candidate : candidates) {
    candidate.trial.ms = 1e3 * candidate.best_s();
    tuned.trials.push_back(candidate.trial);
  }
  tuned.spread = candidates.front().spread();
  return tuned;
}

void ConvTuning::tune(ConvStage::Options& stage, const Context& context) {
  std::vector<Pass> passes = {Pass::kForward};
  if (stage.backward) passes.push_back(Pass::kBackwardWeights);
  if (stage.backward && stage.wants_dx) passes.push_back(Pass::kBackwardData);
  for (ConvPassOptions& kernels : stage.kernels) kernels.conv = {};  // "auto" until its turn comes
  for (const Pass pass : passes) {
    const ConvPassOptions before = kernels_of(stage, pass);
    const std::string problem = describe_problem(stage, pass);
    auto tuned = table.find(problem);
    if (tuned != table.end()) {
      use(stage, pass, tuned->second.trials.front());
      if (!accepts(stage, pass, context)) tuned = table.end();
    }
    if (tuned == table.end()) {
      kernels_of(stage, pass) = before;
      if (!measures) {
        ++unknown;
        continue;
      }
      tuned = table.insert_or_assign(problem, measure(stage, pass, context)).first;
      use(stage, pass, tuned->second.trials.front());
    }
    if (on_choice) on_choice(stage.name, pass, problem, tuned->second);
  }
}

}  // namespace petaflow
