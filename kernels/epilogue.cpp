#include "kernels/epilogue.hpp"

#include <algorithm>
#include <cmath>

#include "base/element.hpp"
#include "base/error.hpp"
#include "kernels/conv.hpp"
#include "kernels/epilogue_pass.hpp"
#include "kernels/launch.hpp"

namespace petaflow {

namespace {
using epilogue::CodeBits;
using epilogue::Operands;
using epilogue::RangePass;
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
  if (saves_signs()) return v.pixels() * ((v.c + 7) / 8);
  if (pool.kind == PoolKind::kAverage) return 0;
  return y.sample_size() * (one_byte(pool) ? 1 : 2);
}

Epilogue::Epilogue(const EpilogueDesc& desc, const float* bias, const Tensor& y, const Tensor& dy, std::uint8_t* saved,
                   const EpilogueMap& map)
    : desc_(desc), bias_(bias), map_(map), y_(y), dy_(dy), saved_(saved) {
  PETAFLOW_REQUIRE(desc.pool.kind == PoolKind::kAverage || desc.pool.window.volume() <= kLargestMaxWindow,
                   "a pooling window of {} pixels", desc.pool.window.volume());
  if (desc.saves_signs()) desc_.pool.kind = PoolKind::kAverage;  // of one pixel, where there is no pooling
  PETAFLOW_REQUIRE(map.residual.data == nullptr || (map.residual.shape == desc.v && map.residual.type == desc.type),
                   "a residual {} of {} beside {} of {}", to_string(map.residual.shape), name_of(map.residual.type),
                   to_string(desc.v), name_of(desc.type));
}

TileRange Epilogue::v_under(const TileRange& y_range) const {
  const PoolGeometry& pool = desc_.pool;
  const auto under = [](const Interval& y, std::int64_t window, std::int64_t stride, std::int64_t pad,
                        std::int64_t size) {
    return Interval{std::max<std::int64_t>(0, y.begin * stride - pad),
                    std::min(size, (y.end - 1) * stride - pad + window)};
  };
  return {y_range.sample, under(y_range.d, pool.window.d, pool.stride.d, pool.pad.d, desc_.v.d),
          under(y_range.h, pool.window.h, pool.stride.h, pool.pad.h, desc_.v.h)};
}

TileRange Epilogue::y_over(const TileRange& v_range) const {
  const PoolGeometry& pool = desc_.pool;
  return {v_range.sample, windows_over(v_range.d, pool.window.d, pool.stride.d, pool.pad.d, desc_.y.d),
          windows_over(v_range.h, pool.window.h, pool.stride.h, pool.pad.h, desc_.y.h)};
}

template <class V, class T, class Run>
void Epilogue::with_operands(const Context& context, const TileRange& v_range, void* v, std::int64_t v_stride,
                             const Tensor& y, std::uint8_t* saved, const BiasSum& bias_gradient, const Run& run) const {
  const auto coded = [&](auto code) {
    run(Operands<V, T, decltype(code)>{
        desc_, v_range, desc_.dropout > 0 && context.training,
        static_cast<std::uint32_t>(std::min(std::lround(desc_.dropout * 65536.0F), 65535L)), static_cast<V*>(v),
        v_stride > 0 ? v_stride : desc_.v.c, map_.scale, bias_, static_cast<const T*>(map_.residual.data),
        map_.residual.pixel_stride, static_cast<T*>(y.data), y.pixel_stride, saved, desc_.saved_bytes_per_sample(),
        bias_gradient, context.step});
  };
  one_byte(desc_.pool) ? coded(std::uint8_t{}) : coded(std::uint16_t{});
}

template <class Run>
void Epilogue::with_forward(const Context& context, const TileRange& v_range, const void* v, std::int64_t v_stride,
                            const Run& run) const {
  std::uint8_t* const saved = context.training ? saved_ : nullptr;
  const auto typed = [&]<class T>(T) {
    with_operands<T, T>(context, v_range, const_cast<void*>(v), v_stride, y_, saved, {}, [&](const auto& operands) {
      if (map_.scale != nullptr || map_.residual.data != nullptr) {
        run.template operator()<Work::kForwardMapped>(operands);
      } else {
        run.template operator()<Work::kForward>(operands);
      }
    });
  };
  with_element(desc_.type, typed);
}

template <class Run>
void Epilogue::with_backward(const Context& context, const TileRange& v_range, void* dv, std::int64_t v_stride,
                             const BiasSum& bias_gradient, const Run& run) const {
  const auto typed = [&]<class V, class T>(V, T) {
    with_operands<V, T>(context, v_range, dv, v_stride, dy_, saved_, bias_gradient, [&](const auto& operands) {
      scatters() ? run.template operator()<Work::kScatter>(operands, y_over(v_range))
                 : run.template operator()<Work::kGather>(operands, v_range);
    });
  };
  with_element(desc_.type,
               [&]<class T>(T element) { desc_.dv_in_f32 ? typed(float{}, element) : typed(element, element); });
}

void Epilogue::forward(const Context& context, const TileRange& y_range, const TileRange& v_range,
                       const void* v) const {
  with_forward(context, v_range, v, 0,
               [&]<Work kWork, class V, class T, class Code>(const Operands<V, T, Code>& operands) {
                 RangePass<V, T, Code, kWork>{operands, y_range}.run();
               });
}

void Epilogue::forward_all(const Context& context, const std::string& label, const void* v,
                           std::int64_t v_stride) const {
  with_forward(context, whole_range(desc_.v), v, v_stride,
               [&]<Work kWork, class V, class T, class Code>(const Operands<V, T, Code>& operands) {
                 const RangePass<V, T, Code, kWork> pass{operands, whole_range(desc_.y)};
                 launch(context, label, pass.items(), pass);
               });
}

bool Epilogue::scatters() const {
  const Extent& stride = desc_.pool.stride;
  const Extent covered{desc_.y.d * stride.d, desc_.y.h * stride.h, desc_.y.w * stride.w};
  // A single average over a whole map gives too little to go from: work is divided by pixels of y.
  constexpr std::int64_t kSmall = 64;
  const bool small = desc_.pool.kind != PoolKind::kAverage || desc_.pool.window.volume() <= kSmall;
  return small && desc_.pool.tiles() && covered == desc_.v.extent();
}

void Epilogue::backward(const Context& context, const TileRange& v_range, void* dv,
                        const BiasSum& bias_gradient) const {
  with_backward(
      context, v_range, dv, 0, bias_gradient,
      [&]<Work kWork, class V, class T, class Code>(const Operands<V, T, Code>& operands, const TileRange& range) {
        RangePass<V, T, Code, kWork>{operands, range}.run();
      });
}

void Epilogue::backward_all(const Context& context, const std::string& label, void* dv, std::int64_t v_stride) const {
  with_backward(
      context, whole_range(desc_.v), dv, v_stride, {},
      [&]<Work kWork, class V, class T, class Code>(const Operands<V, T, Code>& operands, const TileRange& range) {
        const RangePass<V, T, Code, kWork> pass{operands, range};
        launch(context, label, pass.items(), pass);
      });
}

}  // namespace petaflow
