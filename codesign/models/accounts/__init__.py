"""What an accelerator costs: silicon, money, heat, wear, carbon; every constant a dated range."""
