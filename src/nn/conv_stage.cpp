#include "nn/conv_stage.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/region.hpp"
#include "kernels/add_rows.hpp"
#include "kernels/channel_sum.hpp"
#include "kernels/exact_sum.hpp"
#include "kernels/launch.hpp"

namespace petaflow {

namespace {

std::size_t align_up(std::size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

// The first element of a box of a channels-last tensor.
std::byte* begin_of(const Tensor& tensor, const RowBox& box) {
  const std::int64_t offset = offset_of(box, Strides::of(tensor.shape.extent(), tensor.pixel_stride));
  return static_cast<std::byte*>(tensor.data) + static_cast<std::size_t>(offset) * size_of(tensor.type);
}

struct AddTo {
  const float* from;
  float* to;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const { to[i] += from[i]; }
};

/// Adds a dense box to its place in a tensor.
/// @param threads  1: in the calling thread
void add_tile(const Context& context, int threads, const std::string& label, const std::byte* from, const RowBox& box,
              const Tensor& to) {
  const auto add = [&]<class T>(T) {
    const Extent extent{box.d.size(), box.h.size(), to.shape.w};
    const AddRows<T> add_rows{reinterpret_cast<const T*>(from), reinterpret_cast<T*>(begin_of(to, box)),
                              Strides::of(to.shape.extent(), to.pixel_stride), extent, to.shape.c};
    launch(context, threads, label, box.rows(), add_rows);
  };
  to.type == DType::kF32 ? add(float{}) : add(Bf16{});
}

}  // namespace

ConvStage::ConvStage(const Options& options, const Context& context)
    : options_(options), division_(context, options.fixed_order), buffers_(std::max(context.threads, division_.slots)) {
  options_.conv.threads = division_.whole_threads;
  forward_ = plan(Pass::kForward, context);
  if (options.backward) {
    weights_ = plan(Pass::kBackwardWeights, context);
    if (options.wants_dx) data_ = plan(Pass::kBackwardData, context);
  }
}

void ConvStage::prepare_to_add(const std::vector<bool>& adds, const Context& context) {
  if (adds_dx_ == adds[0]) return;
  adds_dx_ = adds[0];
  data_ = plan(Pass::kBackwardData, context);
}

Tiling ConvStage::cut(const Options& options, Pass pass, const Context& context) {
  const Division division(context, options.fixed_order);
  ConvDesc conv = options.conv;
  conv.threads = division.whole_threads;
  const Epilogue shape_of_epilogue(options.epilogue, nullptr, {}, {}, nullptr);
  const TileCutter cutter(conv, shape_of_epilogue, division.slots, options.kernels[static_cast<std::size_t>(pass)]);
  if (pass == Pass::kForward) return cutter.forward();
  return pass == Pass::kBackwardData ? cutter.backward_data() : cutter.backward_weights();
}

std::size_t ConvStage::scratch_bytes(const PassPlan& plan) const {
  return static_cast<std::size_t>(plan.tiling.whole() ? 1 : buffers_) * plan.scratch.bytes;
}

ConvStage::PassPlan ConvStage::plan(Pass pass, const Context& context) const {
  PassPlan result;
  Tiling tiling = ConvStage::cut(options_, pass, context);
  std::int64_t dx_elements = 0;
  if (pass == Pass::kBackwardData && adds_dx_) {
    for (ConvDesc& shape : tiling.shapes) {
      const Strides dense = Strides::of(shape.in, shape.in_channels);
      // Of one sample the distance to the next says nothing but that there are planes in between.
      shape.x_strides = {shape.n == 1 ? shape.x_strides.n : dense.n, dense.d, dense.h, dense.w};
      dx_elements = std::max(dx_elements, shape.n * shape.in.volume() * shape.in_channels);
    }
  }
  try {
    result.choice = choose_conv(pass, tiling.shapes, options_.kernels[static_cast<std::size_t>(pass)].conv);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUser) throw;
    user_error("layer {}: {}", options_.name, error.what());
  }
  result.label = fmt::format("petaflow::{}::{}[{}]", options_.name, name_of(pass), result.choice.impl->name);
  PassPlan::Scratch& scratch = result.scratch;
  const auto add = [&](std::size_t& begin, std::size_t bytes) {
    begin = scratch.bytes;
    scratch.bytes += align_up(bytes);
  };
  add(scratch.v, static_cast<std::size_t>(tiling.largest_v_bytes()));
  add(scratch.dx, static_cast<std::size_t>(dx_elements) * size_of(options_.conv.type));
  add(scratch.kernel, result.choice.kernel->scratch_bytes());
  if (pass == Pass::kBackwardWeights) {
    const auto channels = static_cast<std::size_t>(options_.conv.out_channels),
               elements = static_cast<std::size_t>(result.choice.kernel->gradient_elements());
    add(scratch.sum, (elements + channels) * sizeof(float));
    if (tiling.whole()) {
      add(scratch.channels, channel_sum_scratch_bytes(division_.slots, options_.conv.out_channels));
    } else {
      const bool many = tiling.tiles.size() > sums_in_f32(elements) * static_cast<std::size_t>(division_.slots);
      result.exact_elements = many ? elements + channels : channels;
      add(scratch.exact, result.exact_elements * sizeof(double));
    }
  }
  result.tiling = std::move(tiling);
  return result;
}

std::string ConvStage::describe(const PassPlan& plan) const {
  if (!plan.choice.kernel) return "-";
  return fmt::format("{}, {}", plan.choice.kernel->detail(),
                     plan.tiling.whole() ? "whole" : fmt::format("{} tiles", plan.tiling.tiles.size()));
}

std::vector<std::string> ConvStage::refusals() const {
  std::vector<std::string> result;
  for (const PassPlan* plan : {&forward_, &data_, &weights_}) {
    for (const std::string& refusal : plan->choice.refusals) {
      result.push_back(fmt::format("{}: {}; using {}", options_.name, refusal, plan->choice.impl->name));
    }
  }
  return result;
}

std::size_t ConvStage::saved_bytes() const {
  return options_.backward ? static_cast<std::size_t>(options_.conv.n * options_.epilogue.saved_bytes_per_sample()) : 0;
}

Epilogue ConvStage::epilogue() const {
  const std::uint8_t* saved = saved_bytes() > 0 ? reinterpret_cast<const std::uint8_t*>(buffers.saved) : nullptr;
  return {options_.epilogue, options_.bias ? buffers.weights + options_.bias->offset : nullptr, buffers.y[0],
          buffers.dy[0], const_cast<std::uint8_t*>(saved)};
}

void ConvStage::refresh(const Context& context) {
  for (PassPlan* plan : {&forward_, &data_}) {
    if (plan->choice.kernel) plan->choice.kernel->refresh(context, buffers.weights + options_.weight.offset);
  }
}

void ConvStage::forward(const Context& context) {
  const Epilogue finish = epilogue();
  const PassPlan& plan = forward_;
  const Region region(plan.label);
  const auto slot = [&](int index) {
    return buffers.forward_scratch + static_cast<std::size_t>(index) * plan.scratch.bytes;
  };
  const PassPlan::Scratch& in = plan.scratch;
  const auto convolve = [&](const Tile& tile, std::byte* memory) {
    plan.choice.kernel->run(context, tile.shape,
                            {begin_of(buffers.x[0], tile.x), memory + in.v, nullptr, memory + in.kernel});
  };
  if (plan.tiling.whole()) {
    const Tile& tile = plan.tiling.tiles.front();
    std::byte* memory = slot(0);
    division_.run_whole(plan.label, [&] { convolve(tile, memory); });
    finish.forward_all(context, plan.label, memory + in.v);
    return;
  }
  parallel_items(plan.label, plan.tiling.tiles.size(), [&](int thread, std::size_t index) {
    const Tile& tile = plan.tiling.tiles[index];
    std::byte* memory = slot(thread);
    convolve(tile, memory);
    finish.forward(context, tile.y, tile.v, memory + in.v);
  });
}

void ConvStage::run(const Context& context, Pass pass, float* gradient) {
  if (pass == Pass::kBackwardWeights) return backward_weights(context, gradient);
  const bool is_forward = pass == Pass::kForward;
  (is_forward ? forward_ : data_).choice.kernel->refresh(context, buffers.weights + options_.weight.offset);
  is_forward ? forward(context) : backward_data(context);
}

void ConvStage::backward(const Context& context, float* gradient) {
  const Kokkos::Timer timer;
  backward_weights(context, gradient);
  backward_weights_s += timer.seconds();
  if (options_.wants_dx) backward_data(context);
}

// Each slot adds its tiles, always the same ones, to its own sum; the sums are then added in the order of the slots, so
// that the result depends on their number only.
void ConvStage::backward_weights(const Context& context, float* gradient) {
  const Epilogue restore = epilogue();
  const PassPlan& plan = weights_;
  const Region region(plan.label);
  const auto slot = [&](int index) {
    return buffers.backward_scratch + static_cast<std::size_t>(index) * plan.scratch.bytes;
  };
  ConvKernel& kernel = *plan.choice.kernel;
  const std::size_t tiles = plan.tiling.tiles.size();
  const int slots = plan.tiling.whole() ? 1 : std::min<int>(division_.slots, static_cast<int>(tiles));
  const auto elements = static_cast<std::size_t>(kernel.gradient_elements());
  const auto channels = static_cast<std::size_t>(options_.conv.out_channels);
  const PassPlan::Scratch& in = plan.scratch;
  const auto sum_of = [&](int index) { return reinterpret_cast<float*>(slot(index) + in.sum); };
  const auto correlate = [&](const Tile& tile, int index) {
    std::byte* memory = slot(index);
    kernel.run(context, tile.shape, {begin_of(buffers.x[0], tile.x), memory + in.v, sum_of(index), memory + in.kernel});
  };
  if (plan.tiling.whole()) {
    const Tile& tile = plan.tiling.tiles.front();
    std::byte* memory = slot(0);
    zero(context, sum_of(0), static_cast<std::int64_t>(elements));
    restore.backward_all(context, plan.label, memory + in.v);
    sum_channels(context, division_.slots, memory + in.v, options_.conv.type,
                 tile.v.sample.size() * options_.conv.out.volume(), options_.conv.out_channels, sum_of(0) + elements,
                 memory + in.channels);
    division_.run_whole(plan.label, [&] { correlate(tile, 0); });
  } else {
    parallel_slots(plan.label, slots, [&](int index) {
      float* sum = sum_of(index);
      std::fill_n(sum, elements + channels, 0.0F);
      auto* exact = reinterpret_cast<double*>(slot(index) + in.exact);
      std::fill_n(exact, plan.exact_elements, 0.0);
      const std::size_t kept = plan.exact_elements - channels;  // of the weights' gradient
      const std::size_t first = tiles * static_cast<std::size_t>(index) / static_cast<std::size_t>(slots),
                        last = tiles * (static_cast<std::size_t>(index) + 1) / static_cast<std::size_t>(slots);
      for (std::size_t i = first; i < last; ++i) {
        const Tile& tile = plan.tiling.tiles[i];
        restore.backward(context, tile.v, slot(index) + in.v, {sum + elements, exact + kept});
        correlate(tile, index);
        if ((i + 1 - first) % sums_in_f32(elements) == 0 || i + 1 == last) move_sum(sum, exact, kept);
      }
      round_sum(exact, sum + elements - kept, plan.exact_elements);
    });
    float* total = sum_of(0);
    for (int index = 1; index < slots; ++index) {
      const float* sum = sum_of(index);
      launch(context, "petaflow::conv::sum_of_slots[kokkos]"_label, static_cast<std::int64_t>(elements + channels),
             AddTo{sum, total});
    }
  }
  float* dw = gradient + options_.weight.offset;
  zero(context, dw, options_.conv.weight_elements());
  kernel.unpack_gradient(context, sum_of(0), dw);
  if (options_.bias) {
    copy(context, sum_of(0) + elements, gradient + options_.bias->offset, static_cast<std::int64_t>(channels));
  }
}

void ConvStage::backward_data(const Context& context) {
  const Epilogue restore = epilogue();
  const PassPlan& plan = data_;
  const Region region(plan.label);
  const auto slot = [&](int index) {
    return buffers.backward_scratch + static_cast<std::size_t>(index) * plan.scratch.bytes;
  };
  const PassPlan::Scratch& in = plan.scratch;
  const auto spread = [&](const Tile& tile, std::byte* memory) {
    std::byte* const dx = adds_dx_ ? memory + in.dx : begin_of(buffers.dx[0], tile.x);
    plan.choice.kernel->run(context, tile.shape, {dx, memory + in.v, nullptr, memory + in.kernel});
  };
  if (plan.tiling.whole()) {
    const Tile& tile = plan.tiling.tiles.front();
    std::byte* memory = slot(0);
    restore.backward_all(context, plan.label, memory + in.v);
    division_.run_whole(plan.label, [&] { spread(tile, memory); });
    if (adds_dx_) add_tile(context, context.threads, plan.label, memory + in.dx, tile.x, buffers.dx[0]);
    return;
  }
  parallel_items(plan.label, plan.tiling.tiles.size(), [&](int thread, std::size_t index) {
    const Tile& tile = plan.tiling.tiles[index];
    std::byte* memory = slot(thread);
    restore.backward(context, tile.v, memory + in.v);
    spread(tile, memory);
    if (adds_dx_) add_tile(context, 1, plan.label, memory + in.dx, tile.x, buffers.dx[0]);
  });
}

}  // namespace petaflow
