//! The chain of an entry in `get-entries` (RFC 6962, sections 3.1 and 4.6), which the tree does not
//! cover.

use crate::leaf::push_u24;

/// The longest `opaque<0..2^24-1>`.
const LONGEST: usize = (1 << 24) - 1;

/// Returns the `extra_data` of an entry: for a certificate its `certificate_chain`, for a
/// precertificate its PrecertChainEntry, which begins with the submitted precertificate.
///
/// `chain` has the DER certificates above the leaf, issuer first, accepted root last. Returns
/// `None` if the certificates are too long for the structure.
pub fn extra_data(precertificate: Option<&[u8]>, chain: &[impl AsRef<[u8]>]) -> Option<Vec<u8>> {
    let certificates = || chain.iter().map(AsRef::as_ref);
    let length: usize = certificates().map(|der| 3 + der.len()).sum();
    let longest = certificates().chain(precertificate).map(<[u8]>::len).max();
    if length > LONGEST || longest > Some(LONGEST) {
        return None;
    }
    let own = precertificate.map_or(0, |der| 3 + der.len());
    let mut data = Vec::with_capacity(own + 3 + length);
    if let Some(precertificate) = precertificate {
        push_u24(precertificate, &mut data);
    }
    data.extend_from_slice(&(length as u32).to_be_bytes()[1..]);
    certificates().for_each(|der| push_u24(der, &mut data));
    Some(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_rfc_lays_them_out() {
        // ASN.1Cert certificate_chain<0..2^24-1>.
        let chain = [&b"issuer"[..], b"root"];
        let certificate = extra_data(None, &chain).unwrap();
        assert_eq!(certificate, b"\0\0\x10\0\0\x06issuer\0\0\x04root");
        // ASN.1Cert pre_certificate, followed by the same chain.
        let precertificate = extra_data(Some(b"pre"), &chain).unwrap();
        assert_eq!(
            precertificate,
            b"\0\0\x03pre\0\0\x10\0\0\x06issuer\0\0\x04root"
        );
        let none: [&[u8]; 0] = [];
        assert_eq!(extra_data(None, &none).unwrap(), [0, 0, 0]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let most = vec![0; LONGEST - 3];
        assert_eq!(extra_data(None, &[&most]).unwrap().len(), 3 + LONGEST);
        assert_eq!(extra_data(None, &[&most[..], b""]), None);
        let long = vec![0; LONGEST + 1];
        assert_eq!(extra_data(Some(&long), &[b""]), None);
    }
}
