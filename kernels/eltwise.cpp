// Casts, sums and fills: dense tensors as one long row, others as pixels x channels.
#include "kernels/eltwise.hpp"

namespace petaflow {
namespace {

struct Cast {
  template <class From, class To>
  KOKKOS_INLINE_FUNCTION void operator()(const From& from, To& to) const {
    to = static_cast<To>(static_cast<float>(from));
  }
};

struct Add {
  template <class From, class To>
  KOKKOS_INLINE_FUNCTION void operator()(const From& from, To& to) const {
    to = static_cast<To>(static_cast<float>(to) + static_cast<float>(from));
  }
};

struct Fill {
  float value;
  template <class From, class To>
  KOKKOS_INLINE_FUNCTION void operator()(const From&, To& to) const {
    to = static_cast<To>(value);
  }
};

template <class Op, class From, class To>
struct Elements {
  Op op;
  const From* from;
  To* to;
  std::int64_t from_step, to_step;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const { op(from[i], to[i]); }
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t pixel, std::int64_t c) const {
    op(from[pixel * from_step + c], to[pixel * to_step + c]);
  }
};

template <class From, class To, class Op>
void run_typed(const Context& context, const char* label, const Tensor& from, const Tensor& to, const Op& op) {
  const std::int64_t pixels = to.pixels(), channels = to.shape.c;
  const Elements<Op, From, To> elements{op, static_cast<const From*>(from.data), static_cast<To*>(to.data),
                                        from.pixel_stride, to.pixel_stride};
  if (from.pixel_stride == channels && to.pixel_stride == channels) {
    using Policy = Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>;
    Kokkos::parallel_for(label, Policy(context.space, 0, pixels * channels), elements);
  } else {
    using Rank = Kokkos::Rank<2, Kokkos::Iterate::Right, Kokkos::Iterate::Right>;
    using Policy = Kokkos::MDRangePolicy<ExecutionSpace, Rank, Kokkos::IndexType<std::int64_t>>;
    Kokkos::parallel_for(label, Policy(context.space, {0, 0}, {pixels, channels}), elements);
  }
}

template <class Op>
void run(const Context& context, const char* label, const Tensor& from, const Tensor& to, const Op& op) {
  PETAFLOW_REQUIRE(from.shape == to.shape, "{} of shapes {} and {}", label, to_string(from.shape), to_string(to.shape));
  if (from.type == DType::kF32) {
    to.type == DType::kF32 ? run_typed<float, float>(context, label, from, to, op)
                           : run_typed<float, Bf16>(context, label, from, to, op);
  } else {
    to.type == DType::kF32 ? run_typed<Bf16, float>(context, label, from, to, op)
                           : run_typed<Bf16, Bf16>(context, label, from, to, op);
  }
}

}  // namespace

void cast(const Context& context, const Tensor& from, const Tensor& to) {
  run(context, "petaflow::cast[kokkos]", from, to, Cast{});
}

void add(const Context& context, const Tensor& x, const Tensor& y) {
  run(context, "petaflow::add[kokkos]", x, y, Add{});
}

void fill(const Context& context, const Tensor& x, float value) {
  run(context, "petaflow::fill[kokkos]", x, x, Fill{value});
}

}  // namespace petaflow
