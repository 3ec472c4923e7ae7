//! Integers of N limbs of 64 bits, least significant limb first.

/// Returns `a + b + carry`, and the carry, 0 or 1.
pub(crate) const fn adc(a: u64, b: u64, carry: u64) -> (u64, u64) {
    let (sum, first) = a.overflowing_add(b);
    let (sum, second) = sum.overflowing_add(carry);
    (sum, (first | second) as u64)
}

/// Returns `a - b - borrow`, and the borrow, 0 or 1.
pub(crate) const fn sbb(a: u64, b: u64, borrow: u64) -> (u64, u64) {
    let (difference, first) = a.overflowing_sub(b);
    let (difference, second) = difference.overflowing_sub(borrow);
    (difference, (first | second) as u64)
}

/// Returns `a + b·c + carry`, and the carry. The result always fits two limbs.
pub(crate) const fn mac(a: u64, b: u64, c: u64, carry: u64) -> (u64, u64) {
    let sum = a as u128 + b as u128 * c as u128 + carry as u128;
    (sum as u64, (sum >> 64) as u64)
}

/// Returns `a + b`, and the carry.
pub(crate) const fn add<const N: usize>(a: &[u64; N], b: &[u64; N]) -> ([u64; N], u64) {
    let (mut sum, mut carry, mut i) = ([0; N], 0, 0);
    while i < N {
        (sum[i], carry) = adc(a[i], b[i], carry);
        i += 1;
    }
    (sum, carry)
}

/// Returns `a - b`, and the borrow.
pub(crate) const fn sub<const N: usize>(a: &[u64; N], b: &[u64; N]) -> ([u64; N], u64) {
    let (mut difference, mut borrow, mut i) = ([0; N], 0, 0);
    while i < N {
        (difference[i], borrow) = sbb(a[i], b[i], borrow);
        i += 1;
    }
    (difference, borrow)
}

/// Returns `true` if `a < b`.
pub(crate) const fn less<const N: usize>(a: &[u64; N], b: &[u64; N]) -> bool {
    sub(a, b).1 == 1
}

/// Returns `a` shifted right by `shift` bits, 1 to 63, with `top` above it.
pub(crate) fn shift_right<const N: usize>(a: &[u64; N], top: u64, shift: u32) -> [u64; N] {
    std::array::from_fn(|i| {
        let above = if i + 1 < N { a[i + 1] } else { top };
        (a[i] >> shift) | (above << (64 - shift))
    })
}

/// Reads big-endian `bytes`; `None` if the integer has more than N limbs.
pub(crate) fn from_bytes<const N: usize>(bytes: &[u8]) -> Option<[u64; N]> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let bytes = &bytes[zeros..];
    if bytes.len() > 8 * N {
        return None;
    }
    let mut limbs = [0; N];
    for (place, byte) in bytes.iter().rev().enumerate() {
        limbs[place / 8] |= u64::from(*byte) << (place % 8 * 8);
    }
    Some(limbs)
}

/// Returns `count` bits of `a`, at most 32, starting at bit `from`.
pub(crate) fn bits<const N: usize>(a: &[u64; N], from: usize, count: usize) -> u64 {
    let (limb, shift) = (from / 64, from % 64);
    let low = a.get(limb).map_or(0, |limb| limb >> shift);
    let high = match a.get(limb + 1) {
        Some(limb) if shift > 0 => limb << (64 - shift),
        _ => 0,
    };
    (low | high) & ((1 << count) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_from_the_most_significant() {
        assert_eq!(from_bytes(&[0, 0, 0, 1, 2]), Some([258]));
        assert_eq!(from_bytes(&[1, 0, 0, 0, 0, 0, 0, 0, 7]), Some([7, 1]));
        assert_eq!(from_bytes::<1>(&[1, 0, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(from_bytes(&[]), Some([0]));
    }

    #[test]
    fn bits_cross_limbs() {
        let a = [0xf000_0000_0000_0001, 0x5];
        assert_eq!(bits(&a, 0, 7), 1);
        assert_eq!(bits(&a, 60, 7), 0b101_1111);
        assert_eq!(bits(&a, 64, 7), 5);
        assert_eq!(bits(&a, 127, 7), 0);
        assert_eq!(bits(&a, 128, 7), 0);
    }
}
