//! Certificate extensions (RFC 5280, section 4.2; RFC 6962, section 3). Each constructor returns an
//! extension as in the WebPKI; the fields are public, so that tests can make it invalid.

use std::net::IpAddr;

use crate::{Der, Oid, oid};

/// A certificate extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extension {
    /// Type of the extension.
    pub oid: Oid,
    /// Whether the extension is marked critical.
    pub critical: bool,
    /// Content of the OCTET STRING `extnValue`.
    pub value: Vec<u8>,
}

impl Extension {
    /// Creates an extension. `value` writes the content of the OCTET STRING.
    pub fn new(oid: Oid, critical: bool, value: impl FnOnce(&mut Der)) -> Self {
        Extension {
            oid,
            critical,
            value: Der::build(value),
        }
    }

    pub(crate) fn write(&self, der: &mut Der) {
        der.sequence(|der| {
            der.oid(&self.oid);
            if self.critical {
                der.boolean(true);
            }
            der.octet_string(&self.value);
        });
    }
}

/// Returns the precertificate poison as RFC 6962, section 3.1, requires: critical, NULL.
pub fn poison() -> Extension {
    Extension::new(oid::POISON, true, Der::null)
}

/// Returns the basicConstraints of an end entity: critical and empty.
pub fn end_entity() -> Extension {
    Extension::new(oid::BASIC_CONSTRAINTS, true, |der| der.sequence(|_| ()))
}

/// Returns the basicConstraints of a CA: critical, with the pathLenConstraint `path_length`, if
/// any.
pub fn ca(path_length: Option<u8>) -> Extension {
    Extension::new(oid::BASIC_CONSTRAINTS, true, |der| {
        der.sequence(|der| {
            der.boolean(true);
            if let Some(length) = path_length {
                der.integer(length);
            }
        });
    })
}

/// Returns a keyUsage with digitalSignature and, for RSA, keyEncipherment.
pub fn leaf_key_usage(encipherment: bool) -> Extension {
    let (unused, bits) = if encipherment { (5, 0xa0) } else { (7, 0x80) };
    Extension::new(oid::KEY_USAGE, true, |der| {
        der.put(crate::der::tag::BIT_STRING, &[unused, bits]);
    })
}

/// Returns a keyUsage with digitalSignature, keyCertSign and cRLSign.
pub fn ca_key_usage() -> Extension {
    Extension::new(oid::KEY_USAGE, true, |der| {
        der.put(crate::der::tag::BIT_STRING, &[1, 0x86]);
    })
}

/// Returns an extKeyUsage with the given purposes.
pub fn extended_key_usage(purposes: &[Oid]) -> Extension {
    Extension::new(oid::EXTENDED_KEY_USAGE, false, |der| {
        der.sequence(|der| purposes.iter().for_each(|purpose| der.oid(purpose)));
    })
}

/// Returns a subjectKeyIdentifier with the key identifier `id`.
pub fn subject_key_id(id: &[u8]) -> Extension {
    Extension::new(oid::SUBJECT_KEY_ID, false, |der| der.octet_string(id))
}

/// Returns an authorityKeyIdentifier with a keyIdentifier.
pub fn authority_key_id(id: &[u8]) -> Extension {
    Extension::new(oid::AUTHORITY_KEY_ID, false, |der| {
        der.sequence(|der| der.context_primitive(0, id));
    })
}

/// Returns a subjectAltName: IP addresses as iPAddress, other names as dNSName.
pub fn subject_alt_name<S: AsRef<str>>(names: &[S]) -> Extension {
    Extension::new(oid::SUBJECT_ALT_NAME, false, |der| {
        der.sequence(|der| {
            for name in names {
                match name.as_ref().parse() {
                    Ok(IpAddr::V4(ip)) => der.context_primitive(7, &ip.octets()),
                    Ok(IpAddr::V6(ip)) => der.context_primitive(7, &ip.octets()),
                    Err(_) => der.context_primitive(2, name.as_ref().as_bytes()),
                }
            }
        });
    })
}

/// Returns certificatePolicies without qualifiers.
pub fn policies(policies: &[Oid]) -> Extension {
    Extension::new(oid::CERTIFICATE_POLICIES, false, |der| {
        der.sequence(|der| {
            for policy in policies {
                der.sequence(|der| der.oid(policy));
            }
        });
    })
}

/// Returns an authorityInfoAccess with the URLs of the OCSP responder (if any) and of the issuer's
/// certificate.
pub fn authority_info_access(ocsp: Option<&str>, ca_issuers: &str) -> Extension {
    Extension::new(oid::AUTHORITY_INFO_ACCESS, false, |der| {
        der.sequence(|der| {
            let mut access = |method: &Oid, uri: &str| {
                der.sequence(|der| {
                    der.oid(method);
                    der.context_primitive(6, uri.as_bytes());
                });
            };
            if let Some(uri) = ocsp {
                access(&oid::OCSP, uri);
            }
            access(&oid::CA_ISSUERS, ca_issuers);
        });
    })
}

/// Returns cRLDistributionPoints with one URI.
pub fn crl_distribution_point(uri: &str) -> Extension {
    Extension::new(oid::CRL_DISTRIBUTION_POINTS, false, |der| {
        der.sequence(|der| {
            der.sequence(|der| {
                der.context(0, |der| {
                    der.context(0, |der| der.context_primitive(6, uri.as_bytes()));
                });
            });
        });
    })
}

/// Returns nameConstraints that permit these DNS subtrees.
pub fn permitted_dns(domains: &[&str]) -> Extension {
    Extension::new(oid::NAME_CONSTRAINTS, true, |der| {
        der.sequence(|der| {
            der.context(0, |der| {
                for domain in domains {
                    der.sequence(|der| der.context_primitive(2, domain.as_bytes()));
                }
            });
        });
    })
}
