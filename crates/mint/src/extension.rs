//! Certificate extensions (RFC 5280 4.2, RFC 6962 3): each constructor gives
//! one as the WebPKI writes it; the fields are public so that tests can spoil
//! it.

use std::net::IpAddr;

use crate::{Der, Oid, oid};

/// One extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extension {
    /// Its type.
    pub oid: Oid,
    /// True if it is marked critical.
    pub critical: bool,
    /// The content of its OCTET STRING.
    pub value: Vec<u8>,
}

impl Extension {
    /// An extension whose value is what `value` writes.
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

/// The precertificate poison as RFC 6962 3.1 demands: critical, NULL.
pub fn poison() -> Extension {
    Extension::new(oid::POISON, true, Der::null)
}

/// basicConstraints of an end entity.
pub fn end_entity() -> Extension {
    Extension::new(oid::BASIC_CONSTRAINTS, true, |der| der.sequence(|_| ()))
}

/// basicConstraints of a CA.
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

/// keyUsage with the bits digitalSignature and, for RSA, keyEncipherment.
pub fn leaf_key_usage(encipherment: bool) -> Extension {
    let (unused, bits) = if encipherment { (5, 0xa0) } else { (7, 0x80) };
    Extension::new(oid::KEY_USAGE, true, |der| {
        der.put(crate::der::tag::BIT_STRING, &[unused, bits]);
    })
}

/// keyUsage with the bits digitalSignature, keyCertSign and cRLSign.
pub fn ca_key_usage() -> Extension {
    Extension::new(oid::KEY_USAGE, true, |der| {
        der.put(crate::der::tag::BIT_STRING, &[1, 0x86]);
    })
}

/// extKeyUsage with the given purposes.
pub fn extended_key_usage(purposes: &[Oid]) -> Extension {
    Extension::new(oid::EXTENDED_KEY_USAGE, false, |der| {
        der.sequence(|der| purposes.iter().for_each(|purpose| der.oid(purpose)));
    })
}

/// subjectKeyIdentifier.
pub fn subject_key_id(id: &[u8]) -> Extension {
    Extension::new(oid::SUBJECT_KEY_ID, false, |der| der.octet_string(id))
}

/// authorityKeyIdentifier of the keyIdentifier form.
pub fn authority_key_id(id: &[u8]) -> Extension {
    Extension::new(oid::AUTHORITY_KEY_ID, false, |der| {
        der.sequence(|der| der.context_primitive(0, id));
    })
}

/// subjectAltName: IP addresses as iPAddress, everything else as dNSName.
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

/// certificatePolicies, without qualifiers.
pub fn policies(policies: &[Oid]) -> Extension {
    Extension::new(oid::CERTIFICATE_POLICIES, false, |der| {
        der.sequence(|der| {
            for policy in policies {
                der.sequence(|der| der.oid(policy));
            }
        });
    })
}

/// authorityInfoAccess: where the OCSP responder (if any) and the issuer's
/// certificate are.
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

/// cRLDistributionPoints with one URI.
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

/// nameConstraints that permit these DNS subtrees.
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
