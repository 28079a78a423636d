#include "kernels/epilogue.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "kernels/conv.hpp"
#include "kernels/epilogue_blocks.hpp"

namespace petaflow {

namespace {

using epilogue::Blocks;
using epilogue::CodeBits;
using epilogue::Range;
using epilogue::Rows;
using epilogue::windows_over;
using epilogue::Work;

bool one_byte(const PoolGeometry& pool) { return pool.window.volume() <= CodeBits<std::uint8_t>::kIndex + 1; }

}  // namespace

Extent PoolGeometry::output(const Extent& in) const {
  return {window_output(in.d, window.d, stride.d, 1, pad.d, pad.d),
          window_output(in.h, window.h, stride.h, 1, pad.h, pad.h),
          window_output(in.w, window.w, stride.w, 1, pad.w, pad.w)};
}

std::int64_t EpilogueDesc::saved_bytes_per_sample() const {
  if (!saves()) return 0;
  if (pool.kind == PoolKind::kAverage) return activation ? v.pixels() * ((v.c + 7) / 8) : 0;
  return y.sample_size() * (one_byte(pool) ? 1 : 2);
}

Epilogue::Epilogue(const EpilogueDesc& desc, const float* bias, const Tensor& y, const Tensor& dy, std::uint8_t* saved)
    : desc_(desc), bias_(bias), y_(y), dy_(dy), saved_(saved), rows_are_d_(desc.v.d > 1) {
  PETAFLOW_REQUIRE(desc.pool.kind == PoolKind::kAverage || desc.pool.window.volume() <= kLargestMaxWindow,
                   "a pooling window of {} pixels", desc.pool.window.volume());
}

RowRange Epilogue::v_rows(const RowRange& y_rows) const {
  const PoolGeometry& pool = desc_.pool;
  const std::int64_t window = rows_are_d_ ? pool.window.d : pool.window.h;
  const std::int64_t stride = rows_are_d_ ? pool.stride.d : pool.stride.h;
  const std::int64_t pad = rows_are_d_ ? pool.pad.d : pool.pad.h;
  const std::int64_t rows = rows_are_d_ ? desc_.v.d : desc_.v.h;
  RowRange v = y_rows;
  v.begin = std::max<std::int64_t>(0, y_rows.begin * stride - pad);
  v.end = std::min(rows, (y_rows.end - 1) * stride - pad + window);
  return v;
}

RowRange Epilogue::all(const Shape& shape) const { return {0, shape.n, 0, rows_are_d_ ? shape.d : shape.h}; }

// run(blocks) with the operands in their types.
template <class Run>
void Epilogue::with_blocks(const Context& context, const RowRange& v_rows, void* v, const Tensor& y,
                           std::uint8_t* saved, float* bias_gradient, const Run& run) const {
  const auto typed = [&](auto element, auto code) {
    using T = decltype(element);
    using Code = decltype(code);
    run(Blocks<T, Code>{desc_, v_rows, rows_are_d_, desc_.dropout > 0 && context.training,
                        static_cast<std::uint32_t>(std::min(std::lround(desc_.dropout * 65536.0F), 65535L)),
                        static_cast<T*>(v), bias_, static_cast<T*>(y.data), y.pixel_stride, saved,
                        desc_.saved_bytes_per_sample(), bias_gradient, context.step});
  };
  if (desc_.type == DType::kF32) {
    one_byte(desc_.pool) ? typed(float{}, std::uint8_t{}) : typed(float{}, std::uint16_t{});
  } else {
    one_byte(desc_.pool) ? typed(Bf16{}, std::uint8_t{}) : typed(Bf16{}, std::uint16_t{});
  }
}

void Epilogue::forward(const Context& context, const RowRange& y_rows, const RowRange& v_rows, const void* v) const {
  with_blocks(
      context, v_rows, const_cast<void*>(v), y_, context.training ? saved_ : nullptr, nullptr,
      [&]<class T, class Code>(const Blocks<T, Code>& blocks) { Rows<T, Code, Work::kForward>{blocks, y_rows}.run(); });
}

void Epilogue::forward_all(const Context& context, const std::string& label, const void* v) const {
  with_blocks(context, all(desc_.v), const_cast<void*>(v), y_, context.training ? saved_ : nullptr, nullptr,
              [&]<class T, class Code>(const Blocks<T, Code>& blocks) {
                const Rows<T, Code, Work::kForward> rows{blocks, all(desc_.y)};
                launch(context, label, rows.items(), rows);
              });
}

bool Epilogue::scatters() const {
  const Extent& stride = desc_.pool.stride;
  const Extent covered{desc_.y.d * stride.d, desc_.y.h * stride.h, desc_.y.w * stride.w};
  // Of one average over a whole map there is too little to go from: work is divided by pixels of y.
  constexpr std::int64_t kSmall = 64;
  const bool small = desc_.pool.kind != PoolKind::kAverage || desc_.pool.window.volume() <= kSmall;
  return small && desc_.pool.tiles() && covered == desc_.v.extent();
}

RowRange Epilogue::y_rows_over(const RowRange& v_rows) const {
  const PoolGeometry& pool = desc_.pool;
  const Range v{v_rows.begin, v_rows.end};
  const Range range = rows_are_d_ ? windows_over(v, pool.window.d, pool.stride.d, pool.pad.d, desc_.y.d)
                                  : windows_over(v, pool.window.h, pool.stride.h, pool.pad.h, desc_.y.h);
  return {v_rows.sample_begin, v_rows.sample_end, range.begin, std::max(range.begin, range.end)};
}

void Epilogue::backward(const Context& context, const RowRange& v_rows, void* dv, float* bias_gradient) const {
  with_blocks(context, v_rows, dv, dy_, saved_, bias_gradient, [&]<class T, class Code>(const Blocks<T, Code>& blocks) {
    if (scatters()) {
      Rows<T, Code, Work::kScatter>{blocks, y_rows_over(v_rows)}.run();
    } else {
      Rows<T, Code, Work::kGather>{blocks, v_rows}.run();
    }
  });
}

void Epilogue::backward_all(const Context& context, const std::string& label, void* dv) const {
  with_blocks(context, all(desc_.v), dv, dy_, saved_, nullptr, [&]<class T, class Code>(const Blocks<T, Code>& blocks) {
    if (scatters()) {
      const Rows<T, Code, Work::kScatter> rows{blocks, all(desc_.y)};
      launch(context, label, rows.items(), rows);
    } else {
      const Rows<T, Code, Work::kGather> rows{blocks, all(desc_.v)};
      launch(context, label, rows.items(), rows);
    }
  });
}

}  // namespace petaflow
