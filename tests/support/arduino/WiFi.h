// As much of the ESP32's Arduino core as docs/guides/esp32-sensor.ino uses, on Linux: the sketch runs as a program in a test.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

const int WIFI_STA = 1;
const int WL_CONNECTED = 3;

struct Network {
  void mode(int) {}
  void begin(const char *, const char *) {}
  int status() { return WL_CONNECTED; }
};
inline Network WiFi;

struct SerialLine {
  void begin(int) {}
  template <class... Words> void printf(const char *format, Words... words) { ::fprintf(stderr, format, words...); }
};
inline SerialLine Serial;

inline int analogReadMilliVolts(int) { return 4200; }
inline void delay(int milliseconds) { usleep(milliseconds * 1000); }
inline void configTime(long, int, const char *) {}

class WiFiClient {
 public:
  bool connect(const char *host, uint16_t port) {
    stop();
    socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in there = {};
    there.sin_family = AF_INET;
    there.sin_port = htons(port);
    inet_pton(AF_INET, host, &there.sin_addr);
    if (::connect(socket_, reinterpret_cast<struct sockaddr *>(&there), sizeof there) == 0) return true;
    stop();
    return false;
  }
  bool write(const uint8_t *data, size_t size) {
    return ::send(socket_, data, size, MSG_NOSIGNAL) == static_cast<ssize_t>(size);
  }
  bool has_data(int milliseconds) {
    struct pollfd one = {socket_, POLLIN, 0};
    return ::poll(&one, 1, milliseconds) > 0;
  }
  bool read(uint8_t *data, size_t size) { return size == 0 || ::recv(socket_, data, size, MSG_WAITALL) == static_cast<ssize_t>(size); }
  bool is_open() { return socket_ >= 0; }
  void stop() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }

 private:
  int socket_ = -1;
};
