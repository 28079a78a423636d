// Matrix product by oneDNN's matmul primitive (https://uxlfoundation.github.io/oneDNN/dev_guide_matmul.html).
#include "base/region.hpp"
#include "kernels/gemm.hpp"
#include "kernels/support_onednn.hpp"

namespace petaflow {
namespace {

using dnnl::memory;

using onednn::engine;
using onednn::guarded;
using onednn::stream;
using onednn::ThreadScope;

memory::desc matrix(std::int64_t rows, std::int64_t columns, bool transposed, std::int64_t distance) {
  return {{rows, columns}, memory::data_type::f32, transposed ? memory::dims{1, distance} : memory::dims{distance, 1}};
}

class OnednnGemm final : public GemmKernel {
 public:
  explicit OnednnGemm(const GemmDesc& desc) {
    const ThreadScope threads(desc.threads);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (desc.beta != 0) {
      dnnl::post_ops sum;
      sum.append_sum(desc.beta);
      attributes.set_post_ops(sum);
    }
    const dnnl::matmul::primitive_desc plan(engine(), matrix(desc.m, desc.k, desc.transpose_a, desc.lda),
                                            matrix(desc.k, desc.n, desc.transpose_b, desc.ldb),
                                            matrix(desc.m, desc.n, false, desc.ldc), attributes);
    primitive_ = dnnl::matmul(plan);
    a_ = plan.src_desc(), b_ = plan.weights_desc(), c_ = plan.dst_desc(), scratchpad_ = plan.scratchpad_desc();
    detail_ = fmt::format("onednn {}", plan.impl_info_str());
  }

  void run(const Context&, const float* a, const float* b, float* c, std::byte* scratch) const override {
    const Region region("petaflow::gemm[onednn]");
    guarded(detail_, [&] {
      primitive_.execute(stream(), {{DNNL_ARG_SRC, memory(a_, engine(), const_cast<float*>(a))},
                                    {DNNL_ARG_WEIGHTS, memory(b_, engine(), const_cast<float*>(b))},
                                    {DNNL_ARG_DST, memory(c_, engine(), c)},
                                    {DNNL_ARG_SCRATCHPAD, memory(scratchpad_, engine(), scratch)}});
      stream().wait();
    });
  }

  std::size_t scratch_bytes() const override { return scratchpad_.get_size(); }
  std::string detail() const override { return detail_; }

 private:
  dnnl::matmul primitive_;
  memory::desc a_, b_, c_, scratchpad_;
  std::string detail_;
};

std::unique_ptr<GemmKernel> make(const GemmDesc& desc) {
  return guarded(fmt::format("product of {} x {} x {}", desc.m, desc.k, desc.n),
                 [&] { return std::make_unique<OnednnGemm>(desc); });
}

}  // namespace

extern const GemmImpl kGemmOnednn;
const GemmImpl kGemmOnednn = {"onednn", [](const GemmDesc&) { return std::string(); }, make};

}  // namespace petaflow
