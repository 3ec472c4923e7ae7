//! Numbers in digits of 52 bits, eight to a vector, least significant digit first.

/// Eight digits.
pub(crate) type Lanes = [u64; 8];

/// A number of `8 * V` digits.
pub(crate) type Number<const V: usize> = [Lanes; V];

/// Number of bits in a digit, which is the operand size of AVX-512 IFMA.
pub(crate) const BITS: u32 = 52;

/// Largest digit.
pub(crate) const MASK: u64 = (1 << BITS) - 1;

/// Reads big-endian bytes that fit into the number.
pub(crate) fn read<const V: usize>(bytes: &[u8]) -> Number<V> {
    let mut number = [[0; 8]; V];
    let mut digits = number.as_flattened_mut().iter_mut();
    // Bits that have been read but not written yet: less than a digit, plus eight bytes.
    let (mut pending, mut bits) = (0_u128, 0);
    for chunk in bytes.rchunks(8) {
        let value = chunk
            .iter()
            .fold(0, |value, byte| value << 8 | u128::from(*byte));
        pending |= value << bits;
        bits += 8 * chunk.len() as u32;
        while bits >= BITS {
            if let Some(digit) = digits.next() {
                *digit = pending as u64 & MASK;
            }
            pending >>= BITS;
            bits -= BITS;
        }
    }
    if let Some(digit) = digits.next() {
        *digit = pending as u64;
    }
    number
}

/// Carries the excess of each digit to the next.
pub(crate) fn carry<const V: usize>(number: &mut Number<V>) {
    let mut carry = 0;
    for digit in number.as_flattened_mut() {
        let sum = *digit + carry;
        *digit = sum & MASK;
        carry = sum >> BITS;
    }
}

/// Returns `number - less`, or `None` if that is negative.
pub(crate) fn subtract<const V: usize>(number: &Number<V>, less: &Number<V>) -> Option<Number<V>> {
    let mut difference = *number;
    let mut borrow = 0;
    let digits = difference.as_flattened_mut().iter_mut();
    for (digit, less) in digits.zip(less.as_flattened()) {
        let wrapped = digit.wrapping_sub(*less).wrapping_sub(borrow);
        borrow = wrapped >> 63;
        *digit = wrapped & MASK;
    }
    (borrow == 0).then_some(difference)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_read_from_the_end() {
        let number: Number<1> = read(&[0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0, 0x11]);
        assert_eq!(number[0][..3], [0x6_789a_bcde_f011, 0x1_2345, 0]);
        assert_eq!(read::<1>(&[]), [[0; 8]]);
        assert_eq!(read::<1>(&[0xff; 52]), [[MASK; 8]]);
    }

    #[test]
    fn what_is_smaller_is_subtracted() {
        let (two, three): (Number<1>, Number<1>) = ([[0, 2, 0, 0, 0, 0, 0, 0]], [[1; 8]]);
        assert_eq!(
            subtract(&three, &two).map(|n| n[0][..3].to_vec()),
            Some(vec![1, MASK, 0])
        );
        assert_eq!(subtract(&two, &three), None);
        assert_eq!(subtract(&two, &two), Some([[0; 8]]));
    }
}
