#include "nn/conv_stage.hpp"

#include <algorithm>

#include "base/element.hpp"
#include "base/error.hpp"
#include "base/region.hpp"
#include "base/stopwatch.hpp"
#include "kernels/batch_norm.hpp"
#include "kernels/channel_sum.hpp"
#include "kernels/exact_sum.hpp"
#include "kernels/launch.hpp"
#include "kernels/put_rows.hpp"
#include "nn/refusals.hpp"

namespace petaflow {

namespace {

// Pieces of scratch begin at pages, as blocks of the memory plan do, so that no page serves two threads (not measured
// against lines of cache).
std::size_t align_up(std::size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

// Packed weights up to this size are kept from one update to the next; larger ones are packed anew for each pass, in
// scratch that all layers share: of 79 million weights (climate_detection_sc17) the copies took 1.6 GiB. Packing
// is a pass over the weights, which training does once for each update in any case.
constexpr std::size_t kKeptBytes = std::size_t{1} << 20;

// The first element of a tile in a channels-last tensor.
std::byte* begin_of(const Tensor& tensor, const TileRange& range) {
  const std::int64_t offset = offset_of(range, Strides::of(tensor.shape.extent(), tensor.pixel_stride));
  return static_cast<std::byte*>(tensor.data) + static_cast<std::size_t>(offset) * size_of(tensor.type);
}

struct AddTo {
  const float* from;
  float* to;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const { to[i] += from[i]; }
};

/// to = factor from, which may be the same.
struct Scale {
  float factor;
  const float* from;
  float* to;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const { to[i] = factor * from[i]; }
};

/// The bias goes through the map of a batch norm: scale (v + bias) + offset.
struct AddScaled {
  const float *scale, *bias;
  float* offset;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const { offset[i] += scale[i] * bias[i]; }
};

/// Writes a dense tile to its place in a tensor, or adds it to what is there.
/// @param threads  1: in the calling thread
void put_tile(const Context& context, int threads, const std::string& label, const std::byte* from,
              const TileRange& range, const Tensor& to, bool adds) {
  const auto put = [&]<class T, bool kAdds>(T, std::bool_constant<kAdds>) {
    const Extent extent{range.d.size(), range.h.size(), to.shape.w};
    const PutRows<T, kAdds> rows{reinterpret_cast<const T*>(from), reinterpret_cast<T*>(begin_of(to, range)),
                                 Strides::of(to.shape.extent(), to.pixel_stride), extent, to.shape.c};
    launch(context, threads, label, rows.items(range.rows()), rows);
  };
  const auto typed = [&](auto element) { adds ? put(element, std::true_type{}) : put(element, std::false_type{}); };
  with_element(to.type, typed);
}

}  // namespace

Shape ConvStage::Options::x() const {
  const bool reads = role == ConvRole::kConvolution;
  const Extent& extent = reads ? conv.in : conv.out;
  return {conv.n, reads ? conv.in_channels : conv.out_channels, extent.d, extent.h, extent.w};
}

std::int64_t ConvStage::Options::x_pixel_stride() const {
  return (role == ConvRole::kConvolution ? conv.x_strides : conv.y_strides).w;
}

ConvStage::ConvStage(const Options& options, const Context& context)
    : options_(options),
      division_(context, options.fixed_order),
      scratch_areas_(std::max(context.threads, division_.parts)) {
  options_.conv.threads = division_.whole_threads;
  if (options.gain != 1) {
    scaled_ = Kokkos::View<float*, MemorySpace>("petaflow::conv::scaled_weights",
                                                static_cast<std::size_t>(options.conv.weight_elements()));
  }
  forward_ = plan(Pass::kForward, context);
  if (options.norm) {
    PETAFLOW_REQUIRE(!options.backward, "a batch norm inside {} has no way back", options.name);
    const auto elements = static_cast<std::size_t>(ChannelMap::elements(options.epilogue.v.c));
    norm_ = Kokkos::View<float*, MemorySpace>("petaflow::conv::norm", elements);
  }
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
  ConvPassOptions kernels = options.kernels[static_cast<std::size_t>(pass)];
  // Tiles of x for sums over v that is read where it lies: larger ones share fewer rows (256 channels, 3 x 3 taps,
  // stride 2: 258 to 225 ms in f32, 136 to 125 in bf16).
  const bool of_x = pass == Pass::kBackwardWeights && options.role == ConvRole::kTransposed && options.is_linear();
  if (of_x) kernels.cache_share *= 4;
  const TileCutter cutter(conv, shape_of_epilogue, division.parts, kernels, options.role);
  if (pass == Pass::kForward) return cutter.forward();
  return pass == Pass::kBackwardData ? cutter.backward_data() : cutter.backward_weights(of_x);
}

std::size_t ConvStage::areas_bytes(const PassPlan& plan) const {
  return static_cast<std::size_t>(plan.tiling.whole() ? 1 : scratch_areas_) * plan.scratch.bytes;
}
std::size_t ConvStage::scratch_bytes(const PassPlan& plan) const { return areas_bytes(plan) + plan.scratch.shared; }

ConvStage::PassPlan ConvStage::plan(Pass pass, const Context& context) const {
  PassPlan result;
  Tiling tiling = ConvStage::cut(options_, pass, context);
  const Shape x = options_.x(), &v = options_.epilogue.v;
  std::int64_t dx_rows = 0;
  if (pass == Pass::kBackwardData && adds_dx_) {
    for (const Tile& tile : tiling.tiles) dx_rows = std::max(dx_rows, tile.x.rows());
    for (ConvDesc& shape : tiling.shapes) {
      if (options_.role == ConvRole::kConvolution) {
        shape.x_strides = dense_tile(shape.n, shape.in, shape.in_channels, shape.x_strides);
      } else {
        shape.y_strides = dense_tile(shape.n, shape.out, shape.out_channels, shape.y_strides);
      }
    }
  }
  try {
    result.choice =
        choose_conv(pass_of(options_.role, pass), tiling.shapes, options_.kernels[static_cast<std::size_t>(pass)].conv);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUser) throw;
    user_error("layer {}: {}", options_.name, error.what());
  }
  result.region = fmt::format("petaflow::{}::{}", options_.name, name_of(pass));
  result.label = fmt::format("{}[{}]", result.region, result.choice.impl->name);
  PassPlan::Scratch& scratch = result.scratch;
  const auto add = [&](std::size_t& begin, std::size_t bytes) {
    begin = scratch.bytes;
    scratch.bytes += align_up(bytes);
  };
  const std::size_t packed = result.choice.kernel->packed_bytes();
  if (packed > kKeptBytes) {
    scratch.shared = align_up(packed);
  } else {
    result.packed = Kokkos::View<std::byte*, MemorySpace>("petaflow::conv::packed_weights", packed);
  }
  result.in_y = lies_in_y(tiling, pass);
  add(scratch.v, result.in_y ? 0 : static_cast<std::size_t>(tiling.largest_v_bytes(v, options_.conv.type)));
  add(scratch.dx, static_cast<std::size_t>(dx_rows * x.w * x.c) * size_of(options_.conv.type));
  add(scratch.kernel, result.choice.kernel->scratch_bytes());
  if (pass == Pass::kBackwardWeights) {
    const auto channels = static_cast<std::size_t>(v.c),
               elements = static_cast<std::size_t>(result.choice.kernel->gradient_elements());
    add(scratch.sum, (elements + channels) * sizeof(float));
    if (sums_dy() || tiling.whole())
      add(scratch.channels, channel_sum_scratch_bytes(division_.parts, v.n * v.pixels(), v.c));
    if (!tiling.whole()) {
      const bool many = tiling.tiles.size() > sums_in_f32(elements) * static_cast<std::size_t>(division_.parts);
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
  return refusal_lines<ConvChoice>(options_.name, {{Pass::kForward, &forward_.choice},
                                                   {Pass::kBackwardData, &data_.choice},
                                                   {Pass::kBackwardWeights, &weights_.choice}});
}

std::size_t ConvStage::saved_bytes() const {
  return options_.backward ? static_cast<std::size_t>(options_.conv.n * options_.epilogue.saved_bytes_per_sample()) : 0;
}

Epilogue ConvStage::epilogue() const {
  auto* const saved = saved_bytes() > 0 ? reinterpret_cast<std::uint8_t*>(buffers.saved) : nullptr;
  const ChannelMap norm = ChannelMap::in(norm_.data(), options_.epilogue.v.c);
  return {options_.epilogue,
          options_.norm ? norm.offset : parameter(options_.bias),
          buffers.y[0],
          buffers.dy[0],
          saved,
          {options_.norm ? norm.scale[0] : nullptr, options_.residual ? buffers.x[1] : Tensor{}}};
}

const float* ConvStage::weights(const Context& context) const {
  const float* const weights = buffers.weights + options_.weight.offset;
  if (options_.gain == 1) return weights;
  launch(context, "petaflow::conv::scale[kokkos]"_label, options_.conv.weight_elements(),
         Scale{options_.gain, weights, scaled_.data()});
  return scaled_.data();
}

void ConvStage::refresh(const Context& context, const PassPlan& plan) const {
  if (plan.packed.size() > 0) plan.choice.kernel->pack(context, weights(context), plan.packed.data());
}

const std::byte* ConvStage::packed_weights(const Context& context, const PassPlan& plan, std::byte* scratch) const {
  if (plan.packed.size() > 0) return plan.packed.data();
  if (plan.scratch.shared == 0) return reinterpret_cast<const std::byte*>(weights(context));
  std::byte* const packed = scratch + areas_bytes(plan);
  plan.choice.kernel->pack(context, weights(context), packed);
  return packed;
}

void ConvStage::refresh(const Context& context) {
  for (const PassPlan* plan : {&forward_, &data_}) {
    if (plan->choice.kernel) refresh(context, *plan);
  }
  if (!options_.norm) return;
  const RunningNorm& norm = *options_.norm;
  const std::int64_t channels = options_.epilogue.v.c;
  const ChannelMap map = ChannelMap::in(norm_.data(), channels);
  map_running(context, channels, norm.epsilon, parameter(norm.mean), parameter(norm.variance), parameter(norm.weight),
              parameter(norm.bias), map);
  if (options_.bias) {
    launch(context, "petaflow::conv::norm_of_bias[kokkos]"_label, channels,
           AddScaled{map.scale[0], parameter(options_.bias), map.offset});
  }
}

// A dense tile of v is contiguous in y where its rows are neighbours there; forward also has to write no more of it
// than the tile's own rows.
bool ConvStage::lies_in_y(const Tiling& tiling, Pass pass) const {
  const EpilogueDesc& e = options_.epilogue;
  if (!options_.is_linear() || (pass == Pass::kForward && options_.bias)) return false;
  return std::ranges::all_of(tiling.tiles, [&](const Tile& tile) {
    const bool whole_planes = tile.v.h.size() == e.v.h, whole_samples = whole_planes && tile.v.d.size() == e.v.d;
    const bool contiguous = whole_samples || (tile.v.sample.size() == 1 && (whole_planes || tile.v.d.size() == 1));
    return contiguous && (pass != Pass::kForward || tile.v == tile.y);
  });
}

std::byte* ConvStage::v_of(const PassPlan& plan, const Tile& tile, const Tensor& y, std::byte* memory) const {
  return plan.in_y ? begin_of(y, tile.v) : memory + plan.scratch.v;
}

ConvArgs ConvStage::args(const PassPlan& plan, std::byte* x, std::byte* v, std::byte* memory, const std::byte* weights,
                         float* sum) const {
  if (options_.role == ConvRole::kTransposed) std::swap(x, v);
  return {x, v, sum, memory + plan.scratch.kernel, weights};
}

void ConvStage::forward(const Context& context) {
  const Epilogue finish = epilogue();
  const PassPlan& plan = forward_;
  const Region region(plan.region);
  const std::byte* const weights = packed_weights(context, plan, buffers.forward_scratch);
  const auto memory_of = [&](int index) {
    return buffers.forward_scratch + static_cast<std::size_t>(index) * plan.scratch.bytes;
  };
  const auto convolve = [&](const Tile& tile, std::byte* memory) {
    std::byte* const v = v_of(plan, tile, buffers.y[0], memory);
    plan.choice.kernel->run(context, tile.shape, args(plan, begin_of(buffers.x[0], tile.x), v, memory, weights));
    return v;
  };
  if (plan.tiling.whole()) {
    const Tile& tile = plan.tiling.tiles.front();
    std::byte* v = nullptr;
    division_.run_whole(plan.label, [&] { v = convolve(tile, memory_of(0)); });
    if (!plan.in_y) finish.forward_all(context, plan.label, v);
    return;
  }
  const Poll poll(context);
  parallel_items(plan.label, plan.tiling.tiles.size(), [&](int thread, std::size_t index) {
    const Tile& tile = plan.tiling.tiles[index];
    const std::byte* v = convolve(tile, memory_of(thread));
    if (!plan.in_y) finish.forward(context, tile.y, tile.v, v);
    poll();
  });
}

void ConvStage::run(const Context& context, Pass pass, float* gradient) {
  if (pass == Pass::kBackwardWeights) return backward_weights(context, gradient);
  const bool is_forward = pass == Pass::kForward;
  refresh(context, is_forward ? forward_ : data_);
  is_forward ? forward(context) : backward_data(context, false);
}

void ConvStage::backward(const Context& context, float* gradient) {
  {
    const Stopwatch watch(context, backward_weights_s);
    backward_weights(context, gradient);
  }
  if (options_.wants_dx) backward_data(context, weights_.tiling.whole());
}

std::byte* ConvStage::memory_of(int part) const {
  return buffers.backward_scratch + static_cast<std::size_t>(part) * weights_.scratch.bytes;
}

void ConvStage::correlate(const Context& context, const Tile& tile, std::byte* dv, int part, float* sum) const {
  weights_.choice.kernel->run(context, tile.shape,
                              args(weights_, begin_of(buffers.x[0], tile.x), dv, memory_of(part), nullptr, sum));
}

void ConvStage::sum_bias(const Context& context, const std::byte* dv) const {
  const Shape& v = options_.epilogue.v;
  sum_channels(context, division_.parts, dv, options_.conv.type, v.n * v.pixels(), v.c, sum_of(0) + sum_elements(),
               memory_of(0) + weights_.scratch.channels);
}

void ConvStage::give_residual(const Context& context, int threads, const Tile& tile, const std::byte* dv) const {
  if (!options_.residual || buffers.dx[1].data == nullptr) return;
  put_tile(context, threads, weights_.label, dv, tile.v, buffers.dx[1], buffers.adds[1]);
}

void ConvStage::backward_weights(const Context& context, float* gradient) {
  const Region region(weights_.region);
  float* dw = gradient + options_.weight.offset;
  weights_.tiling.whole() ? sum_whole(context, dw) : sum_tiles(context);
  if (sum_elements() > 0) weights_.choice.kernel->unpack_gradient(context, sum_of(0), dw);
  if (options_.gain != 1) {
    launch(context, "petaflow::conv::scale_gradient[kokkos]"_label, options_.conv.weight_elements(),
           Scale{options_.gain, dw, dw});
  }
  if (options_.bias) {
    copy(context, sum_of(0) + sum_elements(), gradient + options_.bias->offset,
         static_cast<std::int64_t>(v_channels()));
  }
}

void ConvStage::sum_whole(const Context& context, float* dw) {
  const PassPlan& plan = weights_;
  const Tile& tile = plan.tiling.tiles.front();
  std::byte* const dv = v_of(plan, tile, buffers.dy[0], memory_of(0));
  zero(context, sum_of(0), static_cast<std::int64_t>(sum_elements()));
  if (!plan.in_y) epilogue().backward_all(context, plan.label, dv);
  give_residual(context, context.threads, tile, dv);
  if (options_.bias) sum_bias(context, dv);
  division_.run_whole(plan.label, [&] { correlate(context, tile, dv, 0, sum_elements() > 0 ? sum_of(0) : dw); });
}

// Each part adds its tiles, always the same ones, to its own sum; the sums are then added in the order of the parts, so
// that the result depends on their number only.  Its tiles of dv, a partition, are the residual's gradient too.
void ConvStage::sum_tiles(const Context& context) {
  const Epilogue restore = epilogue();
  const PassPlan& plan = weights_;
  const std::size_t tiles = plan.tiling.tiles.size(), elements = sum_elements(), channels = v_channels();
  const int parts = std::min<int>(division_.parts, static_cast<int>(tiles));
  const Poll poll(context);
  parallel_parts(plan.label, parts, [&](int part) {
    float* sum = sum_of(part);
    std::fill_n(sum, elements + channels, 0.0F);
    auto* exact = reinterpret_cast<double*>(memory_of(part) + plan.scratch.exact);
    std::fill_n(exact, plan.exact_elements, 0.0);
    const std::size_t kept = plan.exact_elements - channels;  // of the weights' gradient
    const std::size_t first = tiles * static_cast<std::size_t>(part) / static_cast<std::size_t>(parts),
                      last = tiles * (static_cast<std::size_t>(part) + 1) / static_cast<std::size_t>(parts);
    for (std::size_t i = first; i < last; ++i) {
      const Tile& tile = plan.tiling.tiles[i];
      std::byte* const dv = v_of(plan, tile, buffers.dy[0], memory_of(part));
      if (!plan.in_y) {
        const bool sums = options_.bias && !sums_dy();
        restore.backward(context, tile.v, dv, sums ? BiasSum{sum + elements, exact + kept} : BiasSum{});
      }
      give_residual(context, 1, tile, dv);
      correlate(context, tile, dv, part, sum);
      if ((i + 1 - first) % sums_in_f32(elements) == 0 || i + 1 == last) move_sum(sum, exact, kept);
      poll();
    }
    round_sum(exact, sum + elements - kept, plan.exact_elements);
  });
  float* total = sum_of(0);
  for (int part = 1; part < parts; ++part) {
    launch(context, "petaflow::conv::sum_of_parts[kokkos]"_label, static_cast<std::int64_t>(elements + channels),
           AddTo{sum_of(part), total});
  }
  if (sums_dy()) sum_bias(context, static_cast<const std::byte*>(buffers.dy[0].data));
}

void ConvStage::backward_data(const Context& context, bool dv_is_whole) {
  const Epilogue restore = epilogue();
  const PassPlan& plan = data_;
  const Region region(plan.region);
  const std::byte* const weights = packed_weights(context, plan, buffers.backward_scratch);
  const auto memory_of = [&](int index) {
    return buffers.backward_scratch + static_cast<std::size_t>(index) * plan.scratch.bytes;
  };
  const PassPlan::Scratch& in = plan.scratch;
  const auto spread = [&](const Tile& tile, std::byte* dv, std::byte* memory) {
    std::byte* const dx = adds_dx_ ? memory + in.dx : begin_of(buffers.dx[0], tile.x);
    plan.choice.kernel->run(context, tile.shape, args(plan, dx, dv, memory, weights));
  };
  if (plan.tiling.whole()) {
    const Tile& tile = plan.tiling.tiles.front();
    std::byte *const memory = memory_of(0), *const dv = v_of(plan, tile, buffers.dy[0], memory);
    if (!plan.in_y && !dv_is_whole) restore.backward_all(context, plan.label, dv);
    division_.run_whole(plan.label, [&] { spread(tile, dv, memory); });
    if (adds_dx_) put_tile(context, context.threads, plan.label, memory + in.dx, tile.x, buffers.dx[0], true);
    return;
  }
  const Poll poll(context);
  parallel_items(plan.label, plan.tiling.tiles.size(), [&](int thread, std::size_t index) {
    const Tile& tile = plan.tiling.tiles[index];
    std::byte *const memory = memory_of(thread), *const dv = v_of(plan, tile, buffers.dy[0], memory);
    if (!plan.in_y) restore.backward(context, tile.v, dv);
    spread(tile, dv, memory);
    if (adds_dx_) put_tile(context, 1, plan.label, memory + in.dx, tile.x, buffers.dx[0], true);
    poll();
  });
}

}  // namespace petaflow
