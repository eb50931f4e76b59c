// The part of the library PubSubClient that the sketch uses: MQTT 3.1.1, publishing with QoS 0, one buffer for each packet.
// What is larger than the buffer is dropped without a word, as the library does.
#pragma once

#include <WiFi.h>

#include <string>
#include <vector>

class PubSubClient {
 public:
  using Callback = void (*)(char *, uint8_t *, unsigned int);

  explicit PubSubClient(WiFiClient &network) : network_(network) {}
  void setServer(const char *host, uint16_t port) { host_ = host, port_ = port; }
  bool setBufferSize(uint16_t size) { return buffer_size_ = size, true; }
  void setCallback(Callback callback) { callback_ = callback; }
  bool connected() { return network_.is_open(); }

  bool connect(const char *id, const char *user, const char *password) {
    if (!network_.connect(host_, port_)) return false;
    std::string body = text("MQTT") + std::string("\x04\xc2\x00\x0f", 4) + text(id) + text(user) + text(password);
    uint8_t type;
    std::vector<uint8_t> answer;
    if (send(0x10, body) && receive(type, answer) && type == 0x20 && answer.size() == 2 && answer[1] == 0) return true;
    network_.stop();
    return false;
  }
  bool subscribe(const char *topic, uint8_t qos) { return send(0x82, std::string("\x00\x01", 2) + text(topic) + char(qos)); }
  bool publish(const char *topic, const char *body) {
    if (!connected() || strlen(topic) + strlen(body) + 7 > buffer_size_) return false;
    return send(0x30, text(topic) + body);
  }
  bool loop() {
    while (connected() && network_.has_data(0)) {
      uint8_t type;
      std::vector<uint8_t> packet;
      if (receive(type, packet)) heed(type, packet);
    }
    return connected();
  }

 private:
  static std::string text(const std::string &word) {
    return std::string{char(word.size() >> 8), char(word.size() & 0xff)} + word;
  }
  bool send(uint8_t type, const std::string &body) {
    std::string packet(1, char(type));
    size_t left = body.size();
    do {
      uint8_t digit = left % 128;
      left /= 128;
      packet += char(left ? digit | 0x80 : digit);
    } while (left);
    packet += body;
    if (connected() && network_.write(reinterpret_cast<const uint8_t *>(packet.data()), packet.size())) return true;
    network_.stop();
    return false;
  }
  bool receive(uint8_t &type, std::vector<uint8_t> &body) {
    uint8_t digit;
    size_t size = 0;
    bool is_whole = network_.read(&type, 1);
    for (int shift = 0; is_whole && shift < 28; shift += 7) {
      is_whole = network_.read(&digit, 1);
      size |= size_t(digit & 0x7f) << shift;
      if (!(digit & 0x80)) break;
    }
    body.resize(is_whole ? size : 0);
    if (is_whole && network_.read(body.data(), size)) return true;
    network_.stop();
    return false;
  }
  void heed(uint8_t type, std::vector<uint8_t> &packet) {
    if ((type & 0xf0) != 0x30) return;
    size_t length = packet[0] << 8 | packet[1], start = 2 + length;
    if ((type & 0x06) != 0) {  // QoS 1: the broker wants to hear of it
      std::string id(packet.begin() + start, packet.begin() + start + 2);
      start += 2;
      send(0x40, id);
    }
    std::string topic(packet.begin() + 2, packet.begin() + 2 + length);
    if (packet.size() + 5 <= buffer_size_) callback_(topic.data(), packet.data() + start, packet.size() - start);
  }

  WiFiClient &network_;
  const char *host_ = "";
  uint16_t port_ = 0;
  size_t buffer_size_ = 256;
  Callback callback_ = nullptr;
};
