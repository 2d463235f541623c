'use strict';
// BLAKE2b with 32 bytes and no key (RFC 7693): the name of content at the gateway. Numbers of 64 bits are pairs of 32, the low one first.

const BLAKE2B_IV = new Uint32Array([0xf3bcc908, 0x6a09e667, 0x84caa73b, 0xbb67ae85, 0xfe94f82b, 0x3c6ef372, 0x5f1d36f1, 0xa54ff53a,
  0xade682d1, 0x510e527f, 0x2b3e6c1f, 0x9b05688c, 0xfb41bd6b, 0x1f83d9ab, 0x137e2179, 0x5be0cd19]);
const BLAKE2B_SIGMA = ['0123456789abcdef', 'ea489fd61c02b753', 'b8c052fdae367194', '7931dcbe265a40f8',
  '905724afe1bc683d', '2c6a0b834d75fe19', 'c51fed4a0763928b', 'db7ec13950f4862a',
  '6fe9b308c2d714a5', 'a2847615fb9e3cd0'].map(row => Uint8Array.from(row, c => 2 * parseInt(c, 16)));

class Blake2b {
  constructor() {
    this.h = BLAKE2B_IV.slice();
    this.h[0] ^= 0x01010020;
    this.block = new Uint8Array(128);
    this.m = new Uint32Array(32);
    this.v = new Uint32Array(32);
    this.used = 0;  // of block
    this.total = 0; // bytes, below 2^53
  }

  mix(a, b, c, d, x, y) {
    const v = this.v, m = this.m;
    let lo, hi, t;
    lo = v[a] + v[b]; hi = v[a + 1] + v[b + 1] + (lo >= 0x100000000); t = (lo >>> 0) + m[x];
    v[a] = t; v[a + 1] = hi + m[x + 1] + (t >= 0x100000000);
    lo = v[d] ^ v[a]; hi = v[d + 1] ^ v[a + 1]; v[d] = hi; v[d + 1] = lo;                                         // by 32
    lo = v[c] + v[d]; v[c + 1] = v[c + 1] + v[d + 1] + (lo >= 0x100000000); v[c] = lo;
    lo = v[b] ^ v[c]; hi = v[b + 1] ^ v[c + 1]; v[b] = (lo >>> 24) ^ (hi << 8); v[b + 1] = (hi >>> 24) ^ (lo << 8); // by 24
    lo = v[a] + v[b]; hi = v[a + 1] + v[b + 1] + (lo >= 0x100000000); t = (lo >>> 0) + m[y];
    v[a] = t; v[a + 1] = hi + m[y + 1] + (t >= 0x100000000);
    lo = v[d] ^ v[a]; hi = v[d + 1] ^ v[a + 1]; v[d] = (lo >>> 16) ^ (hi << 16); v[d + 1] = (hi >>> 16) ^ (lo << 16); // by 16
    lo = v[c] + v[d]; v[c + 1] = v[c + 1] + v[d + 1] + (lo >= 0x100000000); v[c] = lo;
    lo = v[b] ^ v[c]; hi = v[b + 1] ^ v[c + 1]; v[b] = (hi >>> 31) ^ (lo << 1); v[b + 1] = (lo >>> 31) ^ (hi << 1); // by 63
  }

  compress(last) {
    const { h, v, m, block } = this;
    for (let i = 0; i < 32; i++) m[i] = block[4 * i] | block[4 * i + 1] << 8 | block[4 * i + 2] << 16 | block[4 * i + 3] << 24;
    v.set(h);
    v.set(BLAKE2B_IV, 16);
    v[24] ^= this.total;
    v[25] ^= this.total / 0x100000000;
    if (last) { v[28] = ~v[28]; v[29] = ~v[29]; }
    for (let r = 0; r < 12; r++) {
      const s = BLAKE2B_SIGMA[r % 10];
      this.mix(0, 8, 16, 24, s[0], s[1]); this.mix(2, 10, 18, 26, s[2], s[3]); this.mix(4, 12, 20, 28, s[4], s[5]); this.mix(6, 14, 22, 30, s[6], s[7]);
      this.mix(0, 10, 20, 30, s[8], s[9]); this.mix(2, 12, 22, 24, s[10], s[11]); this.mix(4, 14, 16, 26, s[12], s[13]); this.mix(6, 8, 18, 28, s[14], s[15]);
    }
    for (let i = 0; i < 16; i++) h[i] ^= v[i] ^ v[i + 16];
  }

  update(bytes) {
    for (let at = 0; at < bytes.length;) {
      if (this.used === 128) { this.total += 128; this.compress(false); this.used = 0; }
      const n = Math.min(128 - this.used, bytes.length - at);
      this.block.set(bytes.subarray(at, at + n), this.used);
      this.used += n;
      at += n;
    }
    return this;
  }

  hex() {
    this.total += this.used;
    this.block.fill(0, this.used);
    this.compress(true);
    let text = '';
    for (let i = 0; i < 32; i++) text += (this.h[i >> 2] >>> 8 * (i & 3) & 255).toString(16).padStart(2, '0');
    return text;
  }
}
