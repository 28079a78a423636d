#include "nn/dense_stage.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/region.hpp"
#include "kernels/channel_sum.hpp"
#include "nn/refusals.hpp"

namespace petaflow {

DenseStage::DenseStage(const Options& options, const Context& context)
    : options_(options), division_(context, options.fixed_order) {
  const std::int64_t n = options.x.n, in = options.x.sample_size(), out = options.epilogue.v.c;
  const auto choose = [&](std::int64_t rows, std::int64_t columns, std::int64_t depth, bool transpose_a,
                          bool transpose_b, std::int64_t lda, std::int64_t ldb) {
    try {
      return choose_gemm(
          {rows, columns, depth, transpose_a, transpose_b, lda, ldb, columns, 0.0F, division_.whole_threads},
          options.gemm);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUser) throw;
      user_error("layer {}: {}", options.name, error.what());
    }
  };
  forward_ = choose(n, out, in, false, true, in, in);  // v (n, out) = x (n, in) w^T
  if (options.backward) {
    weights_ = choose(out, in, n, true, false, out, in);                      // dw (out, in) = dv^T x
    if (options.wants_dx) data_ = choose(n, in, out, false, false, out, in);  // dx (n, in) = dv w
  }
  forward_label_ = fmt::format("petaflow::{}::forward[{}]", options.name, forward_.impl->name);
  backward_label_ =
      fmt::format("petaflow::{}::backward[{}]", options.name, weights_.impl == nullptr ? "" : weights_.impl->name);
  v_bytes_ = padded(static_cast<std::size_t>(n * out) * sizeof(float));
}

std::size_t DenseStage::saved_bytes() const {
  return options_.backward ? static_cast<std::size_t>(options_.x.n * options_.epilogue.saved_bytes_per_sample()) : 0;
}

std::size_t DenseStage::forward_scratch_bytes() const { return v_bytes_ + forward_.kernel->scratch_bytes(); }

std::size_t DenseStage::backward_scratch_bytes() const {
  const std::size_t data = data_.kernel ? data_.kernel->scratch_bytes() : 0;
  const std::size_t bias = channel_sum_scratch_bytes(division_.parts, options_.epilogue.v.n, options_.epilogue.v.c);
  return v_bytes_ + (weights_.kernel ? std::max({weights_.kernel->scratch_bytes(), data, bias}) : 0);
}

std::vector<std::string> DenseStage::refusals() const {
  return refusal_lines<GemmChoice>(
      options_.name, {{Pass::kForward, &forward_}, {Pass::kBackwardData, &data_}, {Pass::kBackwardWeights, &weights_}});
}

Epilogue DenseStage::epilogue() const {
  auto* saved = saved_bytes() > 0 ? reinterpret_cast<std::uint8_t*>(buffers.saved) : nullptr;
  return {options_.epilogue, options_.bias ? buffers.weights + options_.bias->offset : nullptr, buffers.y[0],
          buffers.dy[0], saved};
}

void DenseStage::forward(const Context& context) {
  const Region region(forward_label_);
  auto* v = reinterpret_cast<float*>(buffers.forward_scratch);
  division_.run_whole("petaflow::dense::forward"_label, [&] {
    forward_.kernel->run(context, buffers.x[0].as<float>(), buffers.weights + options_.weight.offset, v,
                         buffers.forward_scratch + v_bytes_);
  });
  const Epilogue finish = epilogue();
  finish.forward_all(context, "petaflow::dense::epilogue[kokkos]"_label, v);
}

void DenseStage::backward(const Context& context, float* gradient) {
  const Region region(backward_label_);
  const std::int64_t n = options_.x.n, out = options_.epilogue.v.c;
  auto* dv = reinterpret_cast<float*>(buffers.backward_scratch);
  std::byte* scratch = buffers.backward_scratch + v_bytes_;
  const Epilogue restore = epilogue();
  restore.backward_all(context, "petaflow::dense::epilogue_backward[kokkos]"_label, dv);
  division_.run_whole("petaflow::dense::backward_weights"_label, [&] {
    weights_.kernel->run(context, dv, buffers.x[0].as<float>(), gradient + options_.weight.offset, scratch);
  });
  if (options_.bias) {
    sum_channels(context, division_.parts, dv, DType::kF32, n, out, gradient + options_.bias->offset, scratch);
  }
  if (options_.wants_dx) {
    division_.run_whole("petaflow::dense::backward_data"_label, [&] {
      data_.kernel->run(context, dv, buffers.weights + options_.weight.offset, buffers.dx[0].as<float>(), scratch);
    });
  }
}

}  // namespace petaflow
