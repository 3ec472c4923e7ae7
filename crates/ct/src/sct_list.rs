//! SCTs of a certificate: a SignedCertificateTimestampList (RFC 6962, section 3.3) in the
//! certificate, in a stapled OCSP response or in a TLS extension.

use bytes::Bytes;

use crate::certificate::Certificate;
use crate::entry::{SignedEntry, sha256};
use crate::precert::tbs_without_scts;
use crate::sct::{Sct, SctError, opaque, push_opaque};

/// A borrowed SignedCertificateTimestampList. Its lengths are valid; [`iter`](Self::iter) parses
/// its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SctList<'a>(&'a [u8]);

impl<'a> SctList<'a> {
    /// Parses the list: a length of two bytes, then each SCT with a length of two bytes.
    ///
    /// # Errors
    /// [`SctError::Encoding`] if lengths are inconsistent, or if the list or a member is empty,
    /// which RFC 6962 forbids.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, SctError> {
        let wrong = SctError::Encoding("the lengths of the list do not add up");
        let mut rest = bytes;
        let list = match opaque(&mut rest) {
            Some(list) if rest.is_empty() => list,
            _ => return Err(wrong),
        };
        if list.is_empty() {
            return Err(SctError::Encoding("the list is empty"));
        }
        let mut members = list;
        while !members.is_empty() {
            match opaque(&mut members) {
                Some([]) => return Err(SctError::Encoding("a member of the list is empty")),
                Some(_) => {}
                None => return Err(wrong),
            }
        }
        Ok(Self(list))
    }

    /// Returns the members in order. A member of another version, or a member that is not an SCT,
    /// does not affect the other members: RFC 6962 permits such extensions of lists.
    pub fn iter(&self) -> impl Iterator<Item = Result<Sct, SctError>> + use<'a> {
        let mut members = self.0;
        std::iter::from_fn(move || opaque(&mut members).map(Sct::from_tls))
    }
}

/// Encodes the list of these SCTs in the TLS presentation language.
///
/// # Errors
/// [`SctError::Encoding`] if the list is longer than 2^16-1 bytes.
pub fn encode_sct_list(scts: &[Sct]) -> Result<Vec<u8>, SctError> {
    let mut list = Vec::with_capacity(scts.len() * 128);
    for sct in scts {
        push_opaque(&sct.to_tls()?, &mut list)?;
    }
    let mut out = Vec::with_capacity(list.len() + 2);
    push_opaque(&list, &mut out)?;
    Ok(out)
}

/// Returns the entry of the SCTs that are embedded in `certificate`, issued by `issuer`: the
/// TBSCertificate without the SCT list, and the issuer's key hash (RFC 6962, section 3.2).
pub fn embedded_entry(certificate: &Certificate<'_>, issuer: &Certificate<'_>) -> SignedEntry {
    SignedEntry::Precert {
        issuer_key_hash: sha256(&[issuer.spki()]),
        tbs: Bytes::from(tbs_without_scts(certificate)),
    }
}

/// Returns the entry of SCTs in an OCSP response or in the TLS handshake: the whole certificate.
pub fn delivered_entry(certificate: &Certificate<'_>) -> SignedEntry {
    SignedEntry::X509 {
        certificate: Bytes::copy_from_slice(certificate.raw()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::public_key::LogId;
    use proptest::prelude::*;

    fn sct() -> impl Strategy<Value = Sct> {
        let bytes = |most| proptest::collection::vec(any::<u8>(), 0..most);
        (any::<[u8; 32]>(), any::<u64>(), bytes(20), bytes(80)).prop_map(
            |(id, timestamp, extensions, signature)| {
                let mut digitally_signed = vec![4, 3];
                push_opaque(&signature, &mut digitally_signed).unwrap();
                Sct {
                    log_id: LogId(id),
                    timestamp,
                    extensions,
                    signature: digitally_signed,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_read(scts in proptest::collection::vec(sct(), 1..6)) {
            let list = encode_sct_list(&scts).unwrap();
            let read: Result<Vec<_>, _> = SctList::parse(&list).unwrap().iter().collect();
            prop_assert_eq!(read.unwrap(), scts);
        }

        #[test]
        fn a_list_cut_short_is_refused(scts in proptest::collection::vec(sct(), 1..3), cut in 1..40usize) {
            let list = encode_sct_list(&scts).unwrap();
            prop_assert!(SctList::parse(&list[..list.len() - cut.min(list.len())]).is_err());
        }

        #[test]
        fn nothing_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(list) = SctList::parse(&bytes) {
                for sct in list.iter().flatten() {
                    prop_assert_eq!(Sct::from_tls(&sct.to_tls().unwrap()).unwrap(), sct);
                }
            }
        }
    }

    #[test]
    fn what_is_no_list() {
        for (bytes, why) in [
            (&[][..], "add up"),
            (&[0, 0], "is empty"),
            (&[0, 2, 0, 0], "member"),
            (&[0, 3, 0, 1], "add up"),
            (&[0, 3, 0, 2, 0], "add up"),
            (&[0, 3, 0, 1, 0, 9], "add up"),
        ] {
            let error = SctList::parse(bytes).unwrap_err().to_string();
            assert!(error.contains(why), "{bytes:?}: {error}");
        }
    }

    #[test]
    fn another_version_says_nothing_of_the_others() {
        let good = Sct {
            log_id: LogId([7; 32]),
            timestamp: 1,
            extensions: vec![],
            signature: vec![4, 3, 0, 1, 9],
        };
        let mut list = Vec::new();
        push_opaque(&[1, 2, 3], &mut list).unwrap();
        push_opaque(&good.to_tls().unwrap(), &mut list).unwrap();
        push_opaque(&[0, 1], &mut list).unwrap();
        let mut bytes = Vec::new();
        push_opaque(&list, &mut bytes).unwrap();
        let scts: Vec<_> = SctList::parse(&bytes).unwrap().iter().collect();
        assert!(matches!(scts[0], Err(SctError::Version(1))));
        assert_eq!(scts[1].as_ref().unwrap(), &good);
        assert!(matches!(
            scts[2],
            Err(SctError::Encoding("there are too few bytes"))
        ));
        let mut long = good.to_tls().unwrap();
        long.push(0);
        let error = Sct::from_tls(&long).unwrap_err().to_string();
        assert!(error.contains("left after"), "{error}");
    }
}
