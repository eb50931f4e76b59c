#pragma once
#include <stdint.h>
#include <time.h>
inline int64_t esp_timer_get_time() {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}
