#include "kernels/copy.hpp"

#include <type_traits>

#include "base/element.hpp"
#include "base/error.hpp"
#include "kernels/launch.hpp"

namespace petaflow {

namespace {

// Rows of elements that are neighbours in both tensors: pixels, or, where both are dense, all of them; an item is a
// piece of one.
struct Rows {
  std::int64_t count, length, from_step, to_step, piece;

  Rows(const Tensor& from, const Tensor& to) {
    const std::int64_t channels = from.shape.c, elements = from.shape.elements();
    const bool dense = from.pixel_stride == channels && to.pixel_stride == channels;
    // On the host enough to hide what an item costs, few enough to divide; threads of a GPU read side by side.
    constexpr std::int64_t kPiece = kOnHost ? 4096 : 4;
    length = dense ? elements : channels;
    count = elements / length;
    from_step = from.pixel_stride;
    to_step = to.pixel_stride;
    piece = dense || !kOnHost ? kPiece : channels;
  }
  KOKKOS_INLINE_FUNCTION std::int64_t pieces() const { return (length + piece - 1) / piece; }
};

template <class From, class To, bool kAdds>
struct CopyPiece {
  Rows rows;
  const From* from;
  To* to;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const std::int64_t row = item / rows.pieces(), begin = item % rows.pieces() * rows.piece;
    const From* x = from + row * rows.from_step;
    To* y = to + row * rows.to_step;
    const std::int64_t end = begin + rows.piece < rows.length ? begin + rows.piece : rows.length;
    for (std::int64_t i = begin; i < end; ++i) {
      const auto value = static_cast<float>(x[i]);
      y[i] = static_cast<To>(kAdds ? static_cast<float>(y[i]) + value : value);
    }
  }
};

template <class From, class To>
void copy_typed(const Context& context, const std::string& label, const Tensor& from, const Tensor& to, bool adds) {
  const Rows rows(from, to);
  const std::int64_t items = rows.count * rows.pieces();
  if (adds) {
    launch(context, label, items, CopyPiece<From, To, true>{rows, from.as<From>(), to.as<To>()});
  } else {
    launch(context, label, items, CopyPiece<From, To, false>{rows, from.as<From>(), to.as<To>()});
  }
}

template <class T>
struct ZeroPixels {
  T* to;
  std::int64_t channels, step;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t pixel) const {
    for (std::int64_t c = 0; c < channels; ++c) to[pixel * step + c] = static_cast<T>(0.0F);
  }
};

}  // namespace

void copy_tensor(const Context& context, const std::string& label, const Tensor& from, const Tensor& to, bool adds) {
  PETAFLOW_REQUIRE(from.shape == to.shape, "a copy of {} to {}", to_string(from.shape), to_string(to.shape));
  PETAFLOW_REQUIRE(from.type == to.type || from.type == DType::kF32 || to.type == DType::kF32, "a copy of {} to {}",
                   name_of(from.type), name_of(to.type));
  with_element(is_rounded(from.type) ? from.type : to.type, [&]<class T>(T) {
    if (from.type == to.type) {
      copy_typed<T, T>(context, label, from, to, adds);
    } else if constexpr (!std::is_same_v<T, float>) {
      from.type == DType::kF32 ? copy_typed<float, T>(context, label, from, to, adds)
                               : copy_typed<T, float>(context, label, from, to, adds);
    }
  });
}

void zero_tensor(const Context& context, const std::string& label, const Tensor& tensor) {
  const std::int64_t channels = tensor.shape.c, step = tensor.pixel_stride;
  with_element(tensor.type, [&]<class T>(T) {
    launch(context, label, tensor.pixels(), ZeroPixels<T>{tensor.as<T>(), channels, step});
  });
}

}  // namespace petaflow
