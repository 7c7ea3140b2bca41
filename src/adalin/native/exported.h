// What Python may call, through ctypes.
#pragma once
#define EXPORTED extern "C" __attribute__((visibility("default")))
