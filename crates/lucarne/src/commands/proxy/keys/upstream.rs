//! Keys under `upstream`.

use lucarne_ct::Fingerprint;
use lucarne_proxy::HostPattern;
use lucarne_settings::form::{Boolean, Each, Files, Shape};
use lucarne_settings::section;

use super::super::config::{CertifiedError, Config, PinError, certified, fingerprint};
use super::entries;

section! {
    for Config = [Config::default()];

    /// PEM files of CAs for servers, in addition to the CAs of the system; or of the servers' own
    /// certificates, self-signed or not
    #[beside("`--upstream-ca`")]
    ca: Files = Files, "none" => upstream_ca;

    /// trusts the CAs of the system
    systemroots: Boolean = Boolean, "`true`" => system_roots;

    /// accepts any certificate of any server, like `curl -k`
    #[beside("`--insecure`")]
    insecure: Boolean = Boolean, "`false`" => insecure;

    /// accepts any certificate of these hosts (patterns without a port)
    #[beside("`--insecure-host`")]
    insecurehosts: Each<HostPattern, CertifiedError> = Each(certified), "none" => insecure_hosts;

    /// accepts only the certificate with this SHA-256 for a host, and checks nothing else in it:
    /// `bmc.example=AB:CD:…`; use one entry for each certificate of a host
    #[beside("`--upstream-fingerprint`")]
    fingerprints: Each<(HostPattern, Fingerprint), PinError> = Each(fingerprint), "none"
        => fingerprints;

    /// a proxy for connections to servers: `http://` or `https://`, `[user:password@]host:port`; or
    /// a list of `url` (or `direct`), `host` (a pattern; default: all), `password` (source of the
    /// password of the user in the URL). As a flag: `[HOST=]URL`
    #[beside("`--upstream-proxy`")]
    proxy: Shape =
        Shape::Either(&[Shape::Secret, Shape::List(&Shape::Map(&entries::through::TABLE))]),
        "none";

    /// list of client certificates for servers that request one: `certificate`, `key`, `host` as
    /// above. As a flag: `[HOST=]CERTIFICATE[,KEY]`
    #[beside("`--upstream-certificate`")]
    certificates: Shape = Shape::List(&Shape::Map(&entries::pair::TABLE)), "none";
}
