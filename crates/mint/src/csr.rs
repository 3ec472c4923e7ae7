use crate::{Der, KeyPair, MintError, Name, extension, oid};

/// Creates a certification request (PKCS #10, RFC 2986) in DER for `names` (DNS names and IP
/// addresses), signed by `key`. The names are in a subjectAltName and the subject is empty, as ACME
/// servers and modern CAs require.
///
/// # Errors
/// Only if the cryptographic library fails.
pub fn certification_request<S: AsRef<str>>(
    key: &KeyPair,
    names: &[S],
) -> Result<Vec<u8>, MintError> {
    let names = extension::subject_alt_name(names);
    let info = Der::build(|der| {
        der.sequence(|der| {
            der.integer(0);
            der.raw(Name::empty().as_der());
            der.raw(key.spki());
            der.context(0, |der| {
                der.sequence(|der| {
                    der.oid(&oid::EXTENSION_REQUEST);
                    der.set(|der| der.sequence(|der| names.write(der)));
                });
            });
        });
    });
    let algorithm = key.default_algorithm();
    let signature = key.sign(algorithm, &info)?;
    Ok(Der::build(|der| {
        der.sequence(|der| {
            der.raw(&info);
            der.raw(&algorithm.identifier());
            der.bit_string(&signature);
        });
    }))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;
    use crate::KeyType;

    /// OpenSSL parses the request, verifies its signature and prints its names.
    #[test]
    fn openssl_agrees() {
        for kind in [KeyType::EcdsaP256, KeyType::EcdsaP384, KeyType::Rsa(2048)] {
            let key = KeyPair::generate(kind).unwrap();
            let request = certification_request(&key, &["a.example.test", "127.0.0.7"]).unwrap();
            let mut openssl = Command::new("openssl")
                .args(["req", "-inform", "DER", "-verify", "-noout", "-text"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("openssl, which Debian's ca-certificates brings along");
            openssl.stdin.take().unwrap().write_all(&request).unwrap();
            let output = openssl.wait_with_output().unwrap();
            let text = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&text);
            assert!(output.status.success(), "{text}");
            assert!(text.contains("verify OK"), "{text}");
            let names = "DNS:a.example.test, IP Address:127.0.0.7";
            assert!(text.contains(names), "{text}");
        }
    }
}
