// An independent convolution in double: the definition, one multiply-add at a time, planar arrays in PyTorch's order.
#pragma once

#include <functional>
#include <vector>

#include "op_cases.hpp"

namespace petaflow::testing_support {

struct ConvArrays {
  std::vector<double> x, w, y;  // (N, C, D, H, W), (K, C / G, kD, kH, kW), (N, K, D', H', W')
};

class ConvReference {
 public:
  explicit ConvReference(const cases::ConvCase& c) : case_(c), out_(window_output(c.in, c.geometry)) {}

  const Extent& out() const { return out_; }
  std::size_t x_size() const { return size(case_.n * case_.in_channels * case_.in.volume()); }
  std::size_t y_size() const { return size(case_.n * case_.out_channels * out_.volume()); }
  std::size_t w_size() const {
    return size(case_.out_channels * case_.in_channels / case_.geometry.groups * case_.geometry.kernel.volume());
  }

  /// y = conv(x, w)
  void forward(ConvArrays& a) const {
    a.y.assign(y_size(), 0);
    for_each([&](std::size_t x, std::size_t w, std::size_t y) { a.y[y] += a.x[x] * a.w[w]; });
  }
  /// x = conv^T(y, w)
  void backward_data(ConvArrays& a) const {
    a.x.assign(x_size(), 0);
    for_each([&](std::size_t x, std::size_t w, std::size_t y) { a.x[x] += a.y[y] * a.w[w]; });
  }
  /// w = sum over pixels of y x
  void backward_weights(ConvArrays& a) const {
    a.w.assign(w_size(), 0);
    for_each([&](std::size_t x, std::size_t w, std::size_t y) { a.w[w] += a.y[y] * a.x[x]; });
  }

 private:
  static std::size_t size(std::int64_t value) { return static_cast<std::size_t>(value); }

  /// Calls f(index in x, in w, in y) for every product of the convolution.
  template <class F>
  void for_each(const F& f) const {
    const ConvGeometry& g = case_.geometry;
    const std::int64_t in_group = case_.in_channels / g.groups, out_group = case_.out_channels / g.groups;
    for (std::int64_t n = 0; n < case_.n; ++n)
      for (std::int64_t k = 0; k < case_.out_channels; ++k)
        for (std::int64_t c = 0; c < in_group; ++c)
          for (std::int64_t td = 0; td < g.kernel.d; ++td)
            for (std::int64_t th = 0; th < g.kernel.h; ++th)
              for (std::int64_t tw = 0; tw < g.kernel.w; ++tw)
                for (std::int64_t od = 0; od < out_.d; ++od)
                  for (std::int64_t oh = 0; oh < out_.h; ++oh) {
                    const std::int64_t id = od * g.stride.d + td * g.dilation.d - g.pad_begin.d;
                    const std::int64_t ih = oh * g.stride.h + th * g.dilation.h - g.pad_begin.h;
                    if (id < 0 || id >= case_.in.d || ih < 0 || ih >= case_.in.h) continue;
                    const std::int64_t channel = k / out_group * in_group + c;
                    const std::int64_t w = (((k * in_group + c) * g.kernel.d + td) * g.kernel.h + th) * g.kernel.w + tw;
                    const std::int64_t x =
                        (((n * case_.in_channels + channel) * case_.in.d + id) * case_.in.h + ih) * case_.in.w;
                    const std::int64_t y = (((n * case_.out_channels + k) * out_.d + od) * out_.h + oh) * out_.w;
                    for (std::int64_t ow = 0; ow < out_.w; ++ow) {
                      const std::int64_t iw = ow * g.stride.w + tw * g.dilation.w - g.pad_begin.w;
                      if (iw >= 0 && iw < case_.in.w) f(size(x + iw), size(w), size(y + ow));
                    }
                  }
  }

  cases::ConvCase case_;
  Extent out_;
};

}  // namespace petaflow::testing_support
