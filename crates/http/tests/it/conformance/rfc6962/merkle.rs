//! The definitions of RFC 6962, section 2.1, as a reference for proofs, independent of the code
//! that creates or verifies them.

use aws_lc_rs::digest::{SHA256, digest};

pub(super) type Hash = [u8; 32];

fn sha256(parts: &[&[u8]]) -> Hash {
    let whole = parts.concat();
    digest(&SHA256, &whole).as_ref().try_into().unwrap()
}

/// MTH({d(0)}) = SHA-256(0x00 || d(0)).
pub(super) fn leaf(d: &[u8]) -> Hash {
    sha256(&[&[0], d])
}

/// Returns the largest power of two smaller than n.
fn k(n: usize) -> usize {
    let mut k = 1;
    while k * 2 < n {
        k *= 2;
    }
    k
}

/// Returns the Merkle Tree Hash of leaves with these hashes (section 2.1).
pub(super) fn mth(d: &[Hash]) -> Hash {
    match d {
        [] => sha256(&[]),
        [leaf] => *leaf,
        _ => {
            let (left, right) = d.split_at(k(d.len()));
            sha256(&[&[1], &mth(left), &mth(right)])
        }
    }
}

/// PATH(m, D[n]) (section 2.1.1).
pub(super) fn path(m: usize, d: &[Hash]) -> Vec<Hash> {
    if d.len() == 1 {
        return Vec::new();
    }
    let k = k(d.len());
    let (left, right) = d.split_at(k);
    let (mut path, other) = if m < k {
        (self::path(m, left), mth(right))
    } else {
        (self::path(m - k, right), mth(left))
    };
    path.push(other);
    path
}

/// PROOF(m, D[n]) (section 2.1.2), 0 < m < n.
pub(super) fn proof(m: usize, d: &[Hash]) -> Vec<Hash> {
    subproof(m, d, true)
}

fn subproof(m: usize, d: &[Hash], b: bool) -> Vec<Hash> {
    let n = d.len();
    if m == n {
        return if b { Vec::new() } else { vec![mth(d)] };
    }
    let k = k(n);
    let (left, right) = d.split_at(k);
    let (mut proof, other) = if m <= k {
        (subproof(m, left, b), mth(right))
    } else {
        (subproof(m - k, right, false), mth(left))
    };
    proof.push(other);
    proof
}
