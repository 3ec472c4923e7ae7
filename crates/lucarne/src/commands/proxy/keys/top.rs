//! Keys at the top of the file.

use std::net::IpAddr;
use std::time::Duration;

use lucarne_mint::KeyType;
use lucarne_net::{Network, NetworkError};
use lucarne_proxy::{Action, HostPattern, PatternError, Ports, PortsError};
use lucarne_settings::form::{Boolean, Durations, Each, File, One, Shape, Sizes, Words};
use lucarne_settings::section;
use lucarne_settings::values::parsed;

use super::super::config::{
    AccessLogFormat, Config, LeafKeys, NotAPlace, StoreKind, UnknownLeafKeys, UnknownStoreKind,
    place,
};
use super::super::file::{KeyTypeError, key_type};
use super::{entries, har, limits, observe, upstream};
use crate::config::{Listen, ListenError, listen};

section! {
    for Config = [Config::default()];

    /// addresses for clients: `host:port`, or `:port` for every address; a list
    #[beside("`--listen`")]
    listen: Each<Listen, ListenError> = Each(listen), "`127.0.0.1:3128`" => listen;

    /// address of the page, its JSON and `/metrics`
    #[beside("`--admin`")]
    admin: One<Listen, ListenError> = One::new(listen), "none" => admin;

    /// directory of the CA: `ca.pem` is for clients to trust, `ca-key.pem` is secret; created at
    /// the first start, or [your own](../how-to/proxy.md#your-own-ca-and-certificates)
    #[beside("`--ca`")]
    ca: File = File, "`lucarne-ca`" => ca;

    /// keys of minted certificates: `p256`, `p384`, `p521`, `rsa2048`, `rsa3072`, `rsa4096`,
    /// `ed25519` (no browser accepts `ed25519`)
    #[beside("`--key-type`")]
    keytype: One<KeyType, KeyTypeError> = One::new(key_type), "`p256`" => key_type;

    /// a key for each certificate, or a key for all certificates of a run; with a shared key an RSA
    /// certificate costs one signature, and no new key
    #[beside("`--leaf-key`")]
    leafkey: One<LeafKeys, UnknownLeafKeys> = One::new(parsed),
        "`shared` for RSA keys, else `per-certificate`" => leaf_keys;

    /// lifetime of minted certificates
    #[beside("`--lifetime`")]
    // Every client refuses a certificate that has already expired.
    lifetime: Durations = Durations::within(Duration::from_nanos(1), Duration::MAX), "`720h`"
        => lifetime;

    /// minted certificates copy the [properties of the server's
    /// certificate](../how-to/proxy.md#resembling-certificates)
    #[beside("`--resemble`")]
    resemble: Boolean = Boolean, "`false`" => resemble;

    /// `memory`, `disk`, `layered` (both), or `none` (a new certificate for each connection, for
    /// comparisons)
    #[beside("`--store`")]
    store: One<StoreKind, UnknownStoreKind> = One::new(parsed),
        "`memory`; with a directory `layered`" => store;

    /// directory of `disk` and `layered`; several proxies can share it
    #[beside("`--store-directory`")]
    storedirectory: File = File, "none" => store_directory;

    /// memory for certificates; one certificate takes about 9 kB
    #[beside("`--store-memory`")]
    storememory: Sizes = Sizes::within(1 << 20, 1 << 40).former_numbers(1 << 20), "`64MiB`"
        => store_memory;

    /// list of your own certificates, served instead of minted ones: `certificate`, `key` (PEM
    /// files; without `key`, one file contains both), `host` (a pattern; default: all hosts that
    /// the certificate covers). As a flag: `[HOST=]CERTIFICATE[,KEY]`
    #[beside("`--certificate`")]
    certificates: Shape = Shape::List(&Shape::Map(&entries::pair::TABLE)), "none";

    /// list of `host` (a pattern) and `action` (`intercept` or `tunnel`)
    #[beside("`--intercept`, `--tunnel`")]
    rules: Shape = Shape::List(&Shape::Map(&entries::rule::TABLE)), "none";

    /// action for hosts without a rule; [`learn`](../how-to/proxy.md#pinned-certificates)
    /// is `intercept`, except for clients that reject it
    #[beside("`--default`")]
    default: Words<Action> = Words(&[
        ("intercept", Action::Intercept),
        ("tunnel", Action::Tunnel),
        ("learn", Action::Learn),
    ]), "`intercept`" => rules.default;

    /// time for which `learn` tunnels a host for a client
    #[beside("`--learn-for`")]
    learnfor: Durations = Durations::within(Duration::from_secs(1), Duration::MAX), "`1h`"
        => rules.learn_for;

    /// the only allowed hosts
    #[beside("`--allow`")]
    allow: Each<HostPattern, PatternError> = Each(parsed), "all" => rules.allow;

    /// denied hosts, even if `allow` lists them
    #[beside("`--deny`")]
    deny: Each<HostPattern, PatternError> = Each(parsed), "none" => rules.deny;

    /// allowed ports
    #[beside("`--allow-port`")]
    ports: Each<Ports, PortsError> = Each(parsed), "`80`, `443`, `1024-65535`" => rules.ports;

    /// allowed internal addresses: `10.0.0.0/8`
    #[beside("`--allow-network`")]
    networks: Each<Network, NetworkError> = Each(parsed), "none" => rules.networks;

    /// allows all internal addresses
    #[beside("`--allow-private`")]
    private: Boolean = Boolean, "`false`" => rules.private;

    /// addresses of hosts, with precedence over name servers: `*.test=127.0.0.1`; the first that
    /// matches
    #[beside("`--resolve`")]
    resolve: Each<(HostPattern, IpAddr), NotAPlace> = Each(place), "name servers" => rules.resolve;

    /// file of users: lines `name:password`, `name:$2y$…` (`htpasswd -B`), `name:{SHA}…`; other
    /// passwords that begin with `$…$` or `{…}`, or look like DES crypt, are refused
    #[beside("`--users`")]
    users: File = File, "all clients" => users.file;

    /// file with a line for each finished request, tunnel and failed handshake
    #[beside("`--access-log`")]
    accesslog: File = File, "none" => access_log;

    /// format of these lines: `combined` (Apache, nginx) or `json` (with durations, sizes, TLS,
    /// action and error)
    #[beside("`--access-log-format`")]
    accesslogformat: Words<AccessLogFormat> = Words(&[
        ("combined", AccessLogFormat::Combined),
        ("json", AccessLogFormat::Json),
    ]), "`combined`" => access_log_format;

    /// recording of requests and responses as HAR: a map, [see below](#keys-under-har)
    #[beside("`--har`")]
    har: Shape = Shape::Map(&har::TABLE), "none";

    /// keeps credentials in access log, HAR and pages
    secrets: Boolean = Boolean, "`false`" => secrets;

    /// connections to servers: a map, [see below](#keys-under-upstream)
    upstream: Shape = Shape::Map(&upstream::TABLE), "none";

    /// observation of certificates: a map, [see below](#keys-under-observe)
    observe: Shape = Shape::Map(&observe::TABLE), "none";

    /// limits of the proxy: a map, [see below](#keys-under-limits)
    limits: Shape = Shape::Map(&limits::TABLE), "below";
}
