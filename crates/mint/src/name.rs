use crate::{
    Oid,
    der::{Der, tag},
    oid,
};

/// A distinguished name, held as the DER it is written as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(Vec<u8>);

impl Name {
    /// The empty name.
    pub fn empty() -> Self {
        Name(Der::build(|der| der.sequence(|_| ())))
    }

    /// A name of one attribute: CN, as UTF8String.
    pub fn common_name(name: &str) -> Self {
        Self::of(&[(&oid::COMMON_NAME, tag::UTF8_STRING, name)])
    }

    /// A leaf's name: as CN the first of its names that is not too long for one (64
    /// characters), else empty.
    pub(crate) fn of_leaf(names: &[String]) -> Self {
        let short = names.iter().find(|name| name.len() <= 64);
        short.map_or_else(Self::empty, |name| Self::common_name(name))
    }

    /// A CA's name: C, O and CN.
    pub fn of_ca(country: &str, organization: &str, name: &str) -> Self {
        Self::of(&[
            (&oid::COUNTRY, tag::PRINTABLE_STRING, country),
            (&oid::ORGANIZATION, tag::UTF8_STRING, organization),
            (&oid::COMMON_NAME, tag::UTF8_STRING, name),
        ])
    }

    /// A name of the given attributes (type, string tag, value), one per RDN.
    pub fn of(attributes: &[(&Oid, u8, &str)]) -> Self {
        Name(Der::build(|der| {
            der.sequence(|der| {
                for (kind, string, value) in attributes {
                    der.set(|der| {
                        der.sequence(|der| {
                            der.oid(kind);
                            der.put(*string, value.as_bytes());
                        });
                    });
                }
            });
        }))
    }

    /// A name as found in a certificate, tag and length included.
    pub fn from_der(der: &[u8]) -> Self {
        Name(der.to_vec())
    }

    /// The name's DER.
    pub fn as_der(&self) -> &[u8] {
        &self.0
    }
}
