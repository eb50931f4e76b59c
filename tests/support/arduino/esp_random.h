#pragma once
#include <stddef.h>
#include <sys/random.h>
inline void esp_fill_random(void *bytes, size_t size) { (void)!getrandom(bytes, size, 0); }
