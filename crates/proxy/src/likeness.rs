//! Properties of servers' certificates that minted certificates copy.

use lucarne_ct::Certificate;
use lucarne_mint::der::Reader;
use lucarne_mint::oid::content;
use lucarne_mint::store::{Host, Likeness};
use lucarne_mint::{KeyType, Time};

use crate::observe::dns_names;

/// Returns the properties of a server's certificate, in DER. The names are copied only if they are
/// `proven`: with names of other hosts in a certificate of the proxy, a server could receive the
/// requests for these hosts on the same connection. Returns `None` if the certificate cannot be
/// parsed.
pub(crate) fn likeness(certificate: &[u8], host: &Host, proven: bool) -> Option<Likeness> {
    let certificate = Certificate::parse(certificate).ok()?;
    let time = |ms: Option<i64>| Some(Time::from_unix(ms?.div_euclid(1000)));
    let mut names = host.names();
    let mut found = dns_names(&certificate);
    if proven && !found.is_empty() {
        // The list of names is bounded, and may end before the name of the host.
        if !covers(&found, host) {
            found.append(&mut names);
        }
        names = found;
    }
    Some(Likeness {
        names,
        not_before: time(certificate.not_before())?,
        not_after: time(certificate.not_after())?,
        key_type: key_type(certificate.spki()),
    })
}

/// Returns whether a certificate with these names is valid for a host.
fn covers(names: &[String], host: &Host) -> bool {
    let host = host.as_str();
    let parent = host.split_once('.').map(|(_, parent)| parent);
    names.iter().any(|name| {
        let wildcard = name.strip_prefix("*.").zip(parent);
        name.eq_ignore_ascii_case(host)
            || wildcard.is_some_and(|(domain, parent)| domain.eq_ignore_ascii_case(parent))
    })
}

/// Returns the kind of a key, or the most similar one that the proxy can generate.
fn key_type(spki: &[u8]) -> Option<KeyType> {
    let mut spki = Reader::new(spki).any("SubjectPublicKeyInfo").ok()?.reader();
    let mut algorithm = spki.any("algorithm").ok()?.reader();
    let kind = algorithm.any("algorithm").ok()?.value;
    match kind {
        content::ED25519 => Some(KeyType::Ed25519),
        content::EC_PUBLIC_KEY => match algorithm.any("parameters").ok()?.value {
            content::P256 => Some(KeyType::EcdsaP256),
            content::P384 => Some(KeyType::EcdsaP384),
            content::P521 => Some(KeyType::EcdsaP521),
            _ => None,
        },
        content::RSA_ENCRYPTION => {
            // The first octet of a BIT STRING is the number of unused bits.
            let key = spki.any("subjectPublicKey").ok()?.value.get(1..)?;
            let mut key = Reader::new(key).any("RSAPublicKey").ok()?.reader();
            let modulus = key.any("modulus").ok()?.value;
            let octets = modulus.iter().skip_while(|octet| **octet == 0).count();
            Some(KeyType::Rsa(match octets * 8 {
                ..=2048 => 2048,
                2049..=3072 => 3072,
                // The generation of a larger key takes minutes.
                _ => 4096,
            }))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lucarne_mint::testing::Pki;
    use lucarne_mint::{KeyPair, LeafOptions};

    use super::*;

    #[test]
    fn names_validity_and_kind_of_key_are_copied() {
        let host = Host::parse("a.test").unwrap();
        for kind in [
            KeyType::EcdsaP256,
            KeyType::EcdsaP384,
            KeyType::EcdsaP521,
            KeyType::Ed25519,
            KeyType::Rsa(2048),
            KeyType::Rsa(3072),
        ] {
            let key = Arc::new(KeyPair::generate(kind).unwrap());
            let mut options = LeafOptions::with_key(["a.test", "*.b.test", "192.0.2.1"], key);
            options.not_before = Time::from_unix(1_600_000_000);
            options.not_after = Time::from_unix(1_600_086_399);
            let leaf = Pki::shared().p256.issue(&options).unwrap();
            let copied = likeness(&leaf, &host, true).unwrap();
            let expected = Likeness {
                names: options.names.clone(),
                not_before: options.not_before,
                not_after: options.not_after,
                key_type: Some(kind),
            };
            assert_eq!(copied, expected);
            let unproven = likeness(&leaf, &host, false).unwrap();
            assert_eq!(unproven.names, ["a.test"]);
        }
        assert_eq!(likeness(b"garbage", &host, true), None);
    }

    #[test]
    fn the_host_is_among_the_names_of_a_large_certificate() {
        let key = Arc::new(KeyPair::generate(KeyType::EcdsaP256).unwrap());
        let mut options = LeafOptions::with_key(["*.b.test"], key);
        let more = (0..200).map(|n| format!("h{n}.test"));
        options.names.extend(more);
        let leaf = Pki::shared().p256.issue(&options).unwrap();
        for (host, added) in [("h199.test", true), ("h1.test", false), ("x.b.test", false)] {
            let names = likeness(&leaf, &Host::parse(host).unwrap(), true)
                .unwrap()
                .names;
            assert_eq!(names.last().unwrap() == host, added, "{names:?}");
        }
    }
}
