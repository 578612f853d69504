"""Accounts of an accelerator: silicon, money, heat, wear, carbon; every constant a dated range."""
