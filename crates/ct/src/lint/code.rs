//! The stable codes of lint findings, for pipelines.

use std::fmt;

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Weight {
    /// The certificate is wrong.
    Wrong,
    /// The property could not be verified and may be right.
    Unverified,
}

impl Weight {
    /// Returns the name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Weight::Wrong => "wrong",
            Weight::Unverified => "unverified",
        }
    }
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $code:literal $weight:ident;)+) => {
        /// The code of a finding.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum LintCode {
            $($(#[doc = $doc])+ $name,)+
        }

        impl LintCode {
            /// All codes.
            pub const ALL: &[LintCode] = &[$(LintCode::$name),+];

            /// Returns the code as it appears in JSON.
            pub fn name(self) -> &'static str {
                match self {
                    $(LintCode::$name => $code,)+
                }
            }

            /// Returns the weight of findings with this code.
            pub fn weight(self) -> Weight {
                match self {
                    $(LintCode::$name => Weight::$weight,)+
                }
            }
        }
    };
}

codes! {
    /// The file is not a certificate.
    NotACertificate = "not-a-certificate" Wrong;
    /// An SCT, or the list of SCTs, cannot be parsed.
    SctUnreadable = "sct-unreadable" Wrong;
    /// An SCT is encoded as text: base64 or JSON.
    SctIsText = "sct-is-text" Wrong;
    /// The signature of an SCT is not over this certificate, for an unknown reason.
    SctSignature = "sct-signature" Wrong;
    /// An SCT has lost its extensions.
    SctExtensionsDropped = "sct-extensions-dropped" Wrong;
    /// The extensions of an SCT are base64.
    SctExtensionsBase64 = "sct-extensions-base64" Wrong;
    /// The leaf index of an SCT is missing or differs from the signed index.
    SctLeafIndex = "sct-leaf-index" Wrong;
    /// An SCT was altered, or belongs to another certificate: other SCTs verify.
    SctAltered = "sct-altered" Wrong;
    /// An SCT was signed for the key of another issuer.
    SctIssuerKeyHash = "sct-issuer-key-hash" Wrong;
    /// An embedded SCT was signed for a final certificate.
    SctEntryType = "sct-entry-type" Wrong;
    /// An SCT was signed for the precertificate, which differs from the certificate.
    SctForPrecertificate = "sct-for-precertificate" Wrong;
    /// The timestamp of an SCT is in the future.
    SctFromTheFuture = "sct-from-the-future" Wrong;
    /// The SCTs are not sufficient for Chrome.
    ChromePolicy = "chrome-policy" Wrong;
    /// The SCTs are not sufficient for Apple.
    ApplePolicy = "apple-policy" Wrong;
    /// The poison of a precertificate violates RFC 6962, section 3.1.
    Poison = "poison" Wrong;
    /// A precertificate has SCTs.
    PrecertificateScts = "precertificate-scts" Wrong;
    /// The precertificate was issued by another key than the certificate.
    IssuerDiffers = "issuer-differs" Wrong;
    /// A field before the extensions differs between precertificate and certificate.
    FieldDiffers = "field-differs" Wrong;
    /// An extension of the precertificate is not in the certificate.
    ExtensionMissing = "extension-missing" Wrong;
    /// An extension of the certificate is not in the precertificate.
    ExtensionAdded = "extension-added" Wrong;
    /// An extension differs between precertificate and certificate.
    ExtensionDiffers = "extension-differs" Wrong;
    /// The extensions are the same in another order.
    ExtensionOrder = "extension-order" Wrong;
    /// Precertificate and certificate differ only in their encoding.
    EncodingDiffers = "encoding-differs" Wrong;
    /// A log with the given roots would refuse the chain.
    ChainRefused = "chain-refused" Wrong;
    /// There is no embedded SCT.
    NoSct = "no-sct" Unverified;
    /// No log list is available.
    NoLogList = "no-log-list" Unverified;
    /// The log list is too old for a verdict.
    OldLogList = "old-log-list" Unverified;
    /// The log of an SCT is not in the list.
    UnknownLog = "unknown-log" Unverified;
    /// The issuer is unknown.
    NoIssuer = "no-issuer" Unverified;
    /// Only certificates with another key are known for the issuer.
    OtherIssuer = "other-issuer" Unverified;
    /// There are more SCTs than the lint checks.
    TooManyScts = "too-many-scts" Unverified;
    /// The policy of Chrome cannot be evaluated.
    ChromeUnverified = "chrome-unverified" Unverified;
    /// The policy of Apple cannot be evaluated.
    AppleUnverified = "apple-unverified" Unverified;
}

impl fmt::Display for LintCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
