//! The curves y² = x³ - 3x + b of FIPS 186-5 (SP 800-186, section 3.2.1).

use crate::digits::Digits;
use crate::integer::{adc, mac, sbb};
use crate::residue::Modulus;

/// A curve of prime order.
pub(crate) trait Curve<const N: usize>: Copy + 'static {
    /// The integers modulo the prime of the coordinates.
    type Field: Modulus<N>;
    /// The integers modulo the number of points.
    type Order: Modulus<N>;
    /// The coefficient b.
    const B: [u64; N];
    /// Coordinates of the generator.
    const GENERATOR: ([u64; N], [u64; N]);
}

/// Returns limbs, least significant first, from 64-bit words in the order of the standard.
const fn limbs<const N: usize>(printed: [u64; N]) -> [u64; N] {
    let (mut limbs, mut i) = ([0; N], 0);
    while i < N {
        limbs[i] = printed[N - 1 - i];
        i += 1;
    }
    limbs
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct P256;
#[derive(Clone, Copy, Debug)]
pub(crate) struct P256Field;
#[derive(Clone, Copy, Debug)]
pub(crate) struct P256Order;

impl Modulus<4> for P256Field {
    const PRIME: [u64; 4] = limbs([
        0xffff_ffff_0000_0001,
        0x0000_0000_0000_0000,
        0x0000_0000_ffff_ffff,
        0xffff_ffff_ffff_ffff,
    ]);

    /// p + 1 = 2^96 + (2^64 - 2^32 + 1)·2^192, and the factor is the lowest limb itself.
    #[inline(always)]
    fn drop_limb([factor, a, b, c]: [u64; 4]) -> ([u64; 4], u64) {
        let (a, carry) = adc(a, factor << 32, 0);
        let (b, carry) = adc(b, factor >> 32, carry);
        let (c, carry) = mac(c, factor, Self::PRIME[3], carry);
        ([a, b, c, 0], carry)
    }
}

impl Digits<4, 5> for P256Field {}

impl Modulus<4> for P256Order {
    const PRIME: [u64; 4] = limbs([
        0xffff_ffff_0000_0000,
        0xffff_ffff_ffff_ffff,
        0xbce6_faad_a717_9e84,
        0xf3b9_cac2_fc63_2551,
    ]);
}

impl Curve<4> for P256 {
    type Field = P256Field;
    type Order = P256Order;
    const B: [u64; 4] = limbs([
        0x5ac6_35d8_aa3a_93e7,
        0xb3eb_bd55_7698_86bc,
        0x651d_06b0_cc53_b0f6,
        0x3bce_3c3e_27d2_604b,
    ]);
    const GENERATOR: ([u64; 4], [u64; 4]) = (
        limbs([
            0x6b17_d1f2_e12c_4247,
            0xf8bc_e6e5_63a4_40f2,
            0x7703_7d81_2deb_33a0,
            0xf4a1_3945_d898_c296,
        ]),
        limbs([
            0x4fe3_42e2_fe1a_7f9b,
            0x8ee7_eb4a_7c0f_9e16,
            0x2bce_3357_6b31_5ece,
            0xcbb6_4068_37bf_51f5,
        ]),
    );
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct P384;
#[derive(Clone, Copy, Debug)]
pub(crate) struct P384Field;
#[derive(Clone, Copy, Debug)]
pub(crate) struct P384Order;

impl Modulus<6> for P384Field {
    const PRIME: [u64; 6] = limbs([
        0xffff_ffff_ffff_ffff,
        0xffff_ffff_ffff_ffff,
        0xffff_ffff_ffff_ffff,
        0xffff_ffff_ffff_fffe,
        0xffff_ffff_0000_0000,
        0x0000_0000_ffff_ffff,
    ]);

    /// p = 2^384 - (2^128 + 2^96 - 2^32 + 1): the term in parentheses, times the factor, is
    /// subtracted, and the factor itself becomes the limb above. No product is needed.
    #[inline(always)]
    fn drop_limb([lowest, a, b, c, d, e]: [u64; 6]) -> ([u64; 6], u64) {
        let factor = lowest.wrapping_add(lowest << 32);
        let (low, high) = (factor << 32, factor >> 32);
        let (k2, k3) = adc(factor, high, 0);
        let (k0, borrow) = sbb(factor, low, 0);
        let (k1, borrow) = sbb(low, high, borrow);
        let (k2, borrow) = sbb(k2, 0, borrow);
        let k3 = k3 - borrow;

        let (_, borrow) = sbb(lowest, k0, 0);
        let (a, borrow) = sbb(a, k1, borrow);
        let (b, borrow) = sbb(b, k2, borrow);
        let (c, borrow) = sbb(c, k3, borrow);
        let (d, borrow) = sbb(d, 0, borrow);
        let (e, borrow) = sbb(e, 0, borrow);
        ([a, b, c, d, e, 0], factor - borrow)
    }
}

impl Digits<6, 8> for P384Field {}

impl Modulus<6> for P384Order {
    const PRIME: [u64; 6] = limbs([
        0xffff_ffff_ffff_ffff,
        0xffff_ffff_ffff_ffff,
        0xffff_ffff_ffff_ffff,
        0xc763_4d81_f437_2ddf,
        0x581a_0db2_48b0_a77a,
        0xecec_196a_ccc5_2973,
    ]);
}

impl Curve<6> for P384 {
    type Field = P384Field;
    type Order = P384Order;
    const B: [u64; 6] = limbs([
        0xb331_2fa7_e23e_e7e4,
        0x988e_056b_e3f8_2d19,
        0x181d_9c6e_fe81_4112,
        0x0314_088f_5013_875a,
        0xc656_398d_8a2e_d19d,
        0x2a85_c8ed_d3ec_2aef,
    ]);
    const GENERATOR: ([u64; 6], [u64; 6]) = (
        limbs([
            0xaa87_ca22_be8b_0537,
            0x8eb1_c71e_f320_ad74,
            0x6e1d_3b62_8ba7_9b98,
            0x59f7_41e0_8254_2a38,
            0x5502_f25d_bf55_296c,
            0x3a54_5e38_7276_0ab7,
        ]),
        limbs([
            0x3617_de4a_9626_2c6f,
            0x5d9e_98bf_9292_dc29,
            0xf8f4_1dbd_289a_147c,
            0xe9da_3113_b5f0_b8c0,
            0x0a60_b1ce_1d7e_819d,
            0x7a43_1d7c_90ea_0e5f,
        ]),
    );
}
