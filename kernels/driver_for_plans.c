// A CUDA driver without a GPU, as far as cuDNN asks it when it compiles an engine and makes a plan of it: one device,
// everything that is loaded is there, nothing runs.  Loaded in place of libcuda.so.1, whose functions are declared in
// cuda.h; their results that are not looked at are left out.
#include <stddef.h>
#include <stdint.h>

enum { kSuccess = 0, kNoSuchFunction = 34 };  // CUDA_ERROR_STUB_LIBRARY
enum { kMajor = 75, kMinor = 76 };            // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_...

static int give(int* to, int value) {
  *to = value;
  return kSuccess;
}
// A handle that nobody looks into.
static int give_handle(void** to) {
  static int next = 0;
  *to = (void*)((uintptr_t)(++next) * 16);
  return kSuccess;
}

int cuInit(unsigned unused0) { return kSuccess; }
int cuDriverGetVersion(int* version) { return give(version, 13000); }
int cuDeviceGetCount(int* count) { return give(count, 1); }
int cuDeviceGet(int* device, int unused1) { return give(device, 0); }
int cuDeviceGetAttribute(int* value, int attribute, int unused2) {
  return give(value, attribute == kMajor ? 9 : attribute == kMinor ? 0 : 1);
}
int cuCtxGetCurrent(void** context) { return give_handle(context); }
int cuCtxGetDevice(int* device) { return give(device, 0); }
int cuCtxPushCurrent(void) { return kSuccess; }
int cuCtxPopCurrent(void) { return kSuccess; }
int cuCtxGetLimit(void) { return kSuccess; }
int cuStreamGetCtx(void) { return kSuccess; }
int cuLaunchKernel(void) { return kSuccess; }
int cuLaunchKernelEx(void) { return kSuccess; }
int cuLaunchCooperativeKernel(void) { return kSuccess; }

int cuLibraryLoadData(void** library) { return give_handle(library); }
int cuLibraryLoadFromFile(void** library) { return give_handle(library); }
int cuLibraryGetKernel(void** kernel) { return give_handle(kernel); }
int cuLibraryGetModule(void** module) { return give_handle(module); }
int cuKernelGetFunction(void** function) { return give_handle(function); }
int cuKernelGetAttribute(int* value) { return give(value, 0); }
int cuModuleLoadData(void** module) { return give_handle(module); }
int cuModuleLoadDataEx(void** module) { return give_handle(module); }
int cuModuleLoadFatBinary(void** module) { return give_handle(module); }
int cuModuleGetFunction(void** function) { return give_handle(function); }
int cuModuleGetGlobal_v2(uintptr_t* address, size_t* bytes) {
  if (address != NULL) *address = 4096;
  if (bytes != NULL) *bytes = 4096;
  return kSuccess;
}
int cuFuncGetAttribute(int* value) { return give(value, 0); }
int cuFuncSetAttribute(void) { return kSuccess; }
int cuKernelSetAttribute(void) { return kSuccess; }
int cuModuleUnload(void) { return kSuccess; }
int cuLibraryUnload(void) { return kSuccess; }
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks) { return give(blocks, 2); }
int cuOccupancyMaxPotentialClusterSize(int* size) { return give(size, 8); }

int cuLinkCreate(unsigned unused0, void* unused1, void* unused2, void** state) { return give_handle(state); }
int cuLinkCreate_v2(unsigned unused0, void* unused1, void* unused2, void** state) { return give_handle(state); }
int cuLinkAddData(void) { return kSuccess; }
int cuLinkAddData_v2(void) { return kSuccess; }
int cuLinkComplete(void* unused0, void** cubin, size_t* bytes) {
  static char none[64];
  *cubin = none;
  *bytes = sizeof none;
  return kSuccess;
}
int cuLinkDestroy(void) { return kSuccess; }

int cuGetErrorString(int unused0, const char** text) {
  *text = "the mock driver runs nothing";
  return kSuccess;
}
int cuGetErrorName(int error, const char** text) { return cuGetErrorString(error, text); }
int cuGetProcAddress(void) { return kNoSuchFunction; }
int cuGetProcAddress_v2(void) { return kNoSuchFunction; }
int cuGetExportTable(void) { return kNoSuchFunction; }
