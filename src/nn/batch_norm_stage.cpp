#include "nn/batch_norm_stage.hpp"

#include "base/error.hpp"
#include "nn/parallel.hpp"

namespace petaflow {

BatchNormStage::BatchNormStage(const Options& options, const Context& context)
    : options_(options),
      channels_(options.epilogue.v.c),
      parts_(Division(context, options.fixed_order).parts),
      forward_label_(fmt::format("petaflow::{}::forward[kokkos]", options.name)),
      backward_label_(fmt::format("petaflow::{}::backward[kokkos]", options.name)) {
  EpilogueDesc& epilogue = options_.epilogue;
  if (options.backward && epilogue.v.n * epilogue.v.pixels() == 1 && !sums_over_ranks()) {
    user_error(
        "layer {}: batch norm over one pixel of one sample has nothing to train on; use a larger train.batch, or "
        "with train.deterministic fewer train.shards",
        options.name);
  }
  epilogue.dv_in_f32 = true;
}

std::size_t BatchNormStage::sums_bytes() const {
  return padded(sizeof(double) * static_cast<std::size_t>(batch_norm_sums(channels_)));
}

std::size_t BatchNormStage::map_bytes() const {
  return padded(sizeof(float) * static_cast<std::size_t>(ChannelMap::elements(channels_)));
}

std::size_t BatchNormStage::statistics_bytes() const {
  return padded(sizeof(float) * static_cast<std::size_t>(BatchStatistics::elements(channels_)));
}

std::size_t BatchNormStage::saved_bytes() const {
  const EpilogueDesc& epilogue = options_.epilogue;
  if (!options_.backward) return 0;
  return statistics_bytes() + map_bytes() + static_cast<std::size_t>(epilogue.v.n * epilogue.saved_bytes_per_sample());
}

std::size_t BatchNormStage::forward_scratch_bytes() const {
  return sums_bytes() + map_bytes() + batch_norm_scratch_bytes(parts_, options_.epilogue.v);
}

std::size_t BatchNormStage::backward_scratch_bytes() const {
  return sums_bytes() + map_bytes() + batch_norm_scratch_bytes(parts_, options_.epilogue);
}

BatchNormStage::Scratch BatchNormStage::scratch(std::byte* memory) const {
  return {reinterpret_cast<double*>(memory), ChannelMap::in(reinterpret_cast<float*>(memory + sums_bytes()), channels_),
          memory + sums_bytes() + map_bytes()};
}

BatchStatistics BatchNormStage::statistics() const {
  return BatchStatistics::in(reinterpret_cast<float*>(buffers.saved), channels_);
}

ChannelMap BatchNormStage::saved_map() const {
  return ChannelMap::in(reinterpret_cast<float*>(buffers.saved + statistics_bytes()), channels_);
}

Epilogue BatchNormStage::epilogue(const ChannelMap& map) const {
  const bool saves = options_.backward && options_.epilogue.saved_bytes_per_sample() > 0;
  auto* saved = saves ? reinterpret_cast<std::uint8_t*>(buffers.saved + statistics_bytes() + map_bytes()) : nullptr;
  return {options_.epilogue, map.offset, buffers.y[0],
          buffers.dy[0],     saved,      {map.scale[0], options_.residual ? buffers.x[1] : Tensor{}}};
}

const float* BatchNormStage::parameter(const std::optional<StageParameter>& which) const {
  return which ? buffers.weights + which->offset : nullptr;
}

bool BatchNormStage::has_dx(std::size_t input) const {
  return input < buffers.dx.size() && buffers.dx[input].data != nullptr;
}

std::int64_t BatchNormStage::forward_rank_sum() const { return sums_over_ranks() ? batch_norm_sums(channels_) : 0; }

std::int64_t BatchNormStage::backward_rank_sum() const {
  return sums_over_ranks() && has_dx(0) ? batch_norm_sums(channels_) : 0;
}

void BatchNormStage::forward(const Context& context) {
  const auto [sums, map, memory] = scratch(buffers.forward_scratch);
  const float *const weight = parameter(options_.weight), *const bias = parameter(options_.bias);
  const float epsilon = options_.batch_norm.epsilon;
  if (context.training) {
    PETAFLOW_REQUIRE(options_.backward, "a network made for inference");
    sum_moments(context, parts_, buffers.x[0], sums, memory);
    if (sums_over_ranks()) sum_over_ranks(context, sums);
    map_batch(context, channels_, epsilon, sums, weight, bias, statistics(), saved_map());
    apply(context, saved_map());
  } else {
    map_running(context, channels_, epsilon, buffers.weights + options_.running_mean.offset,
                buffers.weights + options_.running_variance.offset, weight, bias, map);
    apply(context, map);
  }
}

void BatchNormStage::apply(const Context& context, const ChannelMap& map) const {
  const Tensor& x = buffers.x[0];
  epilogue(map).forward_all(context, forward_label_, x.data, x.pixel_stride);
}

void BatchNormStage::backward(const Context& context, float* gradient) {
  const auto [sums, map, memory] = scratch(buffers.backward_scratch);
  const Tensor& x = buffers.x[0];
  const Epilogue behind = epilogue(map);
  if (options_.weight || has_dx(0)) {
    sum_gradients(context, parts_, x, behind, statistics().mean, sums, memory);
  }
  write_running_statistics(context, options_.epilogue.v, statistics(), gradient + options_.running_mean.offset,
                           gradient + options_.running_variance.offset);
  if (options_.weight) {
    write_gradients(context, channels_, sums, statistics(), gradient + options_.weight->offset,
                    gradient + options_.bias->offset);
  }
  GradientTarget targets[2];
  for (std::size_t i = 0; i < 2; ++i) {
    if (has_dx(i)) targets[i] = {buffers.dx[i], buffers.adds[i]};
  }
  if (has_dx(0)) {
    if (sums_over_ranks()) sum_over_ranks(context, sums);
    map_gradient(context, channels_, sums, parameter(options_.weight), statistics(), map);
  }
  if (has_dx(0) || has_dx(1)) {
    apply_gradient_map(context, parts_, backward_label_, map, x, behind, targets[0], targets[1], memory);
  }
}

void BatchNormStage::sum_over_ranks(const Context& context, double* sums) const {
  if (context.sum_over_ranks == nullptr) return;
  const Kokkos::View<double*, MemorySpace, Kokkos::MemoryUnmanaged> device(
      sums, static_cast<std::size_t>(batch_norm_sums(channels_)));
  context.space.fence();
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), device);
  (*context.sum_over_ranks)({host.data(), host.extent(0)});
  Kokkos::deep_copy(device, host);
}

}  // namespace petaflow
