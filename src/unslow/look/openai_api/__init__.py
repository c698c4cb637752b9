"""What servers with OpenAI's interface share: how they are asked, how they list models, how they stream an answer."""
