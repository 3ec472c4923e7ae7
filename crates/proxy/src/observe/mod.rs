//! What was seen of the servers: chains, SCTs, and whether logs have them.
