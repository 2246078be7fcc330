// Stand-in for NVML, found only by LD_LIBRARY_PATH: one warm card whose power limit reduces its clock.
#include <cstring>

extern "C" {

int nvmlInit_v2() { return 0; }
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  static int card;
  *device = &card;
  return std::strlen(uuid) == 40 && !std::strncmp(uuid, "GPU-", 4) && uuid[12] == '-' && uuid[27] == '-' ? 0 : 2;
}
int nvmlDeviceGetClockInfo(void*, int kind, unsigned* mhz) {
  *mhz = kind == 1 ? 1395 : 2619;
  return 0;
}
int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) {
  *milliwatts = 698500;
  return 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* reasons) {
  *reasons = 0x24;
  return 0;
}
}
