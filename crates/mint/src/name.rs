use crate::{
    Oid,
    der::{Der, tag},
    oid,
};

/// A distinguished name, stored in DER.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(Vec<u8>);

impl Name {
    /// Returns the empty name.
    pub fn empty() -> Self {
        Name(Der::build(|der| der.sequence(|_| ())))
    }

    /// Returns a name with a CN only, as UTF8String.
    pub fn common_name(name: &str) -> Self {
        Self::of(&[(&oid::COMMON_NAME, tag::UTF8_STRING, name)])
    }

    /// Returns the name of a leaf. The CN is the first of `names` with at most 64 bytes. The name
    /// is empty if all names are longer.
    pub(crate) fn of_leaf(names: &[String]) -> Self {
        let short = names.iter().find(|name| name.len() <= 64);
        short.map_or_else(Self::empty, |name| Self::common_name(name))
    }

    /// Returns a CA's name: C, O and CN.
    pub fn of_ca(country: &str, organization: &str, name: &str) -> Self {
        Self::of(&[
            (&oid::COUNTRY, tag::PRINTABLE_STRING, country),
            (&oid::ORGANIZATION, tag::UTF8_STRING, organization),
            (&oid::COMMON_NAME, tag::UTF8_STRING, name),
        ])
    }

    /// Returns a name with these attributes (type, string tag, value), one per RDN.
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

    /// Creates a name from its DER in a certificate, including tag and length.
    pub fn from_der(der: &[u8]) -> Self {
        Name(der.to_vec())
    }

    /// Returns the name's DER.
    pub fn as_der(&self) -> &[u8] {
        &self.0
    }
}
